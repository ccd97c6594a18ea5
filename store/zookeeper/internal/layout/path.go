package layout

import (
	"fmt"
	"strconv"
	"strings"
)

// The parents of all nodes.
const (
	Batches    = "/batches"
	BatchUUIDs = "/batch-uuids"
	Jobs       = "/jobs"
	JobStates  = "/jobs/states"
	Access     = "/access"
	Locks      = "/locks"
	Migration  = "/migration" // historic; ignored

	QueueLocks      = "/locks/queue"
	LocalIDLocks    = "/locks/localid"
	StorageLocks    = "/locks/storage"
	InventoryLocks  = "/locks/inventory"
	CollectionLocks = "/locks/collections"

	IngestPaused      = "/locks/queue/ingest"      // while it exists, ingest and storage take no further work
	AccessSmallPaused = "/locks/queue/accessSmall" // likewise the queue of small access packages
	AccessLargePaused = "/locks/queue/accessLarge"
)

// Skeleton returns the persistent nodes that exist in every tree, parents before children.
func Skeleton() []string {
	paths := []string{Batches, BatchUUIDs, Jobs, JobStates}
	for _, s := range JobStatuses {
		paths = append(paths, JobStates+"/"+s.Dir())
	}
	return append(paths, Access, Small.Path(), Large.Path(), Locks, QueueLocks, LocalIDLocks, StorageLocks,
		InventoryLocks, CollectionLocks)
}

// BatchID, JobID and AccessID are the names of nodes: a prefix and at least 10 digits, "bid0000000007".
type (
	BatchID  string
	JobID    string
	AccessID string
)

// Prefixes of the ids.
const (
	BatchPrefix  = "bid"
	JobPrefix    = "jid"
	AccessPrefix = "qid"
)

// Sequence returns the name that a sequential node with a number has.
func Sequence(prefix string, number int64) string { return fmt.Sprintf("%s%010d", prefix, number) }

// NumberOf parses the name of a sequential node.
func NumberOf(prefix, name string) (int64, bool) {
	digits, found := strings.CutPrefix(name, prefix)
	if !found || len(digits) < 10 || strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }) >= 0 {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil
}

// Valid reports whether the id is the name of a batch.
func (b BatchID) Valid() bool { return valid(BatchPrefix, string(b)) }

// Valid reports whether the id is the name of a job.
func (j JobID) Valid() bool { return valid(JobPrefix, string(j)) }

// Valid reports whether the id is the name of an access request.
func (a AccessID) Valid() bool { return valid(AccessPrefix, string(a)) }

func valid(prefix, name string) bool { _, ok := NumberOf(prefix, name); return ok }

// Path returns the node of the batch; the methods below return its children.
func (b BatchID) Path() string       { return Batches + "/" + string(b) }
func (b BatchID) Submission() string { return b.Path() + "/submission" } // read-only after creation
func (b BatchID) Status() string     { return b.Path() + "/status" }
func (b BatchID) States() string     { return b.Path() + "/states" } // its absence means that the batch is pending
func (b BatchID) Lock() string       { return b.Path() + "/lock" }   // ephemeral

// HeldMark is a child of States of a held batch. Other programs then ignore the batch: without it, the Java library
// would lock the batch, fail, and leave nodes that keep the batch from being acquired after its release.
func (b BatchID) HeldMark() string { return b.States() + "/batch-held" }

// Dir returns the directory of references to the jobs of the batch that are in a group of states.
func (b BatchID) Dir(d BatchDir) string { return b.States() + "/" + string(d) }

// BatchDirPaths returns the directories of references of a batch.
func BatchDirPaths(b BatchID) []string {
	all := make([]string, len(BatchDirs))
	for i, d := range BatchDirs {
		all[i] = b.Dir(d)
	}
	return all
}

// Reference returns the reference of the batch to a job.
func (b BatchID) Reference(d BatchDir, j JobID) string { return b.Dir(d) + "/" + string(j) }

// Path returns the node of the job; the methods below return its children.
func (j JobID) Path() string          { return Jobs + "/" + string(j) }
func (j JobID) Batch() string         { return j.Path() + "/bid" }
func (j JobID) Priority() string      { return j.Path() + "/priority" }
func (j JobID) Space() string         { return j.Path() + "/space_needed" }
func (j JobID) Configuration() string { return j.Path() + "/configuration" }
func (j JobID) Identifiers() string   { return j.Path() + "/identifiers" }
func (j JobID) Metadata() string      { return j.Path() + "/metadata" }
func (j JobID) Store() string         { return j.Path() + "/store" }
func (j JobID) Inventory() string     { return j.Path() + "/inventory" }
func (j JobID) Status() string        { return j.Path() + "/status" }
func (j JobID) Lock() string          { return j.Path() + "/lock" } // ephemeral

// Queue is a queue of access requests.
type Queue string

// The queues of access requests. A request of more than SmallAccess bytes is in the large one.
const (
	Small Queue = "small"
	Large Queue = "large"
)

// SmallAccess is the size in bytes up to which an access request is in the queue Small.
const SmallAccess = 500_000_000

// QueueOf returns the queue of an access request of a size in bytes.
func QueueOf(size int64) Queue {
	if size > SmallAccess {
		return Large
	}
	return Small
}

// Path returns the node of the queue.
func (q Queue) Path() string { return Access + "/" + string(q) }

// Paused returns the lock that pauses the queue.
func (q Queue) Paused() string {
	if q == Large {
		return AccessLargePaused
	}
	return AccessSmallPaused
}

// Request returns the node of an access request; the methods below return its children.
func (q Queue) Request(a AccessID) string { return q.Path() + "/" + string(a) }
func (q Queue) Token(a AccessID) string   { return q.Request(a) + "/token" }
func (q Queue) Status(a AccessID) string  { return q.Request(a) + "/status" }
func (q Queue) Lock(a AccessID) string    { return q.Request(a) + "/lock" } // ephemeral

// UUID returns the node that finds a batch by the batchID of its submission.
func UUID(uuid string) string { return BatchUUIDs + "/" + uuid }

// CollectionLock returns the node that holds the jobs of a profile back.
func CollectionLock(profile string) string { return CollectionLocks + "/" + mangle(profile) }

// StorageLock returns the lock of one object in storage: persistent, one writer an object.
func StorageLock(ark string) string { return StorageLocks + "/" + mangle(ark) }

// InventoryLock returns the lock of one object in the inventory: ephemeral.
func InventoryLock(ark string) string { return InventoryLocks + "/" + mangle(ark) }

// LocalIDLock returns the lock under which an identifier is minted for a local id of an owner: ephemeral.
func LocalIDLock(localID, ownerARK string) string {
	return LocalIDLocks + "/" + mangle(localID+"_"+ownerARK)
}

// mangle makes a node name of an identifier as the original does: "/" with a ":" before it becomes "_".
func mangle(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, ":/", "_"), "/", "_")
}
