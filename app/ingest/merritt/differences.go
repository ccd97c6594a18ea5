package merritt

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/zookeeper"
	"github.com/stagepost/stagepost/store/zookeeper/merritt"
)

// Difference is a batch, job or access request of Merritt that a server takes over as a record, or whose record
// follows.
type Difference struct {
	Node    string          `json:"node"`
	Kind    job.Kind        `json:"kind"`
	State   lifecycle.State `json:"state,omitempty"` // of the nodes
	Record  job.ID          `json:"record,omitempty"`
	Batch   string          `json:"batch,omitempty"` // nodes of the batch of a job
	Profile string          `json:"profile,omitempty"`
	Message string          `json:"message,omitempty"` // of the status of the nodes
	Since   time.Time       `json:"since,omitzero"`    // when the status was written
	Locked  bool            `json:"locked,omitempty"`  // a program of Merritt has it
	Gone    bool            `json:"gone,omitempty"`    // the record has no nodes any more
}

// Differences returns the nodes of Merritt that get a record in a store, or whose record has another state. fresh means
// that there is no store yet: none is created. A store that a server uses is refused.
func Differences(ctx context.Context, servers []string, o zookeeper.Options, profiles profile.Source) (
	all []Difference, fresh bool, err error) {
	tree, err := merritt.OpenTree(ctx, servers, o.User, o.Password)
	if err != nil {
		return nil, false, err
	}
	defer tree.Close()
	at := cmp.Or(o.Root, zookeeper.DefaultRoot)
	exists, holder, err := tree.Store(ctx, at)
	switch {
	case err != nil:
		return nil, false, err
	case holder != "":
		return nil, false, job.Errorf(job.Conflict, "import", "",
			"the server %s runs on the store at %s of %s, and follows Merritt if it has --ingest-merritt on: "+
				"stagepost admin health lists what it cannot follow", holder, at, strings.Join(servers, ","))
	case !exists:
		seen, err := tree.Unrecorded(ctx, Mapping(profiles))
		return differences(seen, nil), true, err
	}
	store, err := zookeeper.Open(ctx, servers, o)
	if err != nil {
		return nil, false, err
	}
	defer store.Close()
	link := merritt.New(Mapping(profiles), merritt.Options{})
	if err := store.Attach(ctx, link); err != nil {
		return nil, false, err
	}
	known, err := store.Nodes(ctx)
	if err != nil {
		return nil, false, err
	}
	seen, _, err := link.Read(ctx, known)
	return differences(seen, known), false, err
}

// differences leaves out nodes that get no record. Jobs follow their batches in seen.
func differences(seen []merritt.Seen, known map[string]zookeeper.Shown) (all []Difference) {
	all = []Difference{}
	takes := map[string]bool{} // batches that take jobs
	for node, s := range known {
		takes[node] = s.Job.Kind == record.BatchKind && (takesJobs(s.Job) || s.Job.State == record.Pending)
	}
	for i := range seen {
		s := &seen[i]
		switch {
		case s.Record != "":
		case s.Kind == record.JobKind && !takes[s.Batch], !adoptable(s):
			continue
		case s.Kind == record.BatchKind:
			takes[s.Node] = true
		}
		all = append(all, Difference{Node: s.Node, Kind: s.Kind, State: s.State, Record: s.Record, Batch: s.Batch,
			Profile: s.Value("profile"), Message: s.Message, Since: s.Since, Locked: s.Locked, Gone: s.Gone})
	}
	return all
}
