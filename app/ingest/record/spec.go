// Package record has what the records of batches and jobs hold: their lifecycles, what they are created with, and what
// their phases find out.
package record

import (
	"encoding/json"
	"fmt"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/job"
)

// BatchSpec is what a batch is created with.
type BatchSpec struct {
	api.Submission
	Payload Payload `json:"payload"`
	// the files after the first, each the payload of a job of its own
	More []Payload `json:"more,omitempty"`
	User bool      `json:"user,omitempty"` // a user handed it in, see AsUser
	// owner of the user token that it came with: it adds versions only to objects that this user may update
	Bound string `json:"bound,omitempty"`
	// collections to which its sender is limited: it adds versions only to objects of these
	Within []string `json:"within,omitempty"`
}

// Payload is a file that was handed in, at work/<batch>/payload; further ones see [workdir.PartName].
type Payload struct {
	Size     int64  `json:"size"`
	SHA256   string `json:"sha256"`
	Filename string `json:"filename,omitempty"` // of a further file; that of the first is the submission's
}

// Bytes is the size of all files.
func (s *BatchSpec) Bytes() int64 {
	all := s.Payload.Size
	for i := range s.More {
		all += s.More[i].Size
	}
	return all
}

// Texts are those by whose words people find the batch.
func (s *BatchSpec) Texts() []string { return texts(s.Title, s.Creator, s.Filename, s.LocalIDs) }

// Texts are those by whose words people find the job.
func (s *JobSpec) Texts() []string { return texts(s.Title, s.Creator, s.Filename, s.LocalIDs) }

// Texts are those by whose words people find the job of an object, with the name of its payload.
func (i *Identity) Texts(filename string) []string {
	return texts(i.Title, i.Creator, filename, i.LocalIDs)
}

func texts(title, creator, filename string, localIDs []string) []string {
	return append([]string{title, creator, filename}, localIDs...)
}

// Described reports whether the submission describes its objects beyond what a [JobSpec] repeats.
func (s *BatchSpec) Described() bool {
	return len(s.DublinCore) > 0 || s.ResourceType != "" || s.Embargo != "" || s.RetainTarget
}

// BatchData is what the phases of a batch find out.
type BatchData struct {
	Type string `json:"type,omitempty"` // as given or found out
	// of each file of a submission of several
	Types    []string `json:"types,omitempty"`
	Jobs     int      `json:"jobs,omitempty"`
	Priority int      `json:"priority,omitempty"`
	Cause    string   `json:"cause,omitempty"` // why it made no jobs
	Failure  string   `json:"failure,omitempty"`
	Reported string   `json:"reported,omitempty"` // digest of the last report
	Reports  int      `json:"reports,omitempty"`  // how many there were
	Last     int      `json:"last,omitempty"`     // generation of the last one
}

// JobSpec is what a job is created with.
type JobSpec struct {
	Type      string `json:"type"` // file, container or object-manifest
	Profile   string `json:"profile"`
	Submitter string `json:"submitter,omitempty"`
	URL       string `json:"url,omitempty"` // where the payload is; empty: the payload of the batch
	Row       int    `json:"row,omitempty"` // line in the batch manifest
	// which file of the batch is its payload; 0 is the first
	Part int `json:"part,omitempty"`
	// the submission of the batch has more about the object
	Described bool `json:"described,omitempty"`
	// the same of a job whose description is not in the submission of its batch
	Description *Description `json:"description,omitempty"`
	Filename    string       `json:"filename,omitempty"`
	Size        int64        `json:"size"` // of the payload; -1 when not known
	Digest      Digest       `json:"digest,omitzero"`
	Title       string       `json:"title,omitempty"`
	Creator     string       `json:"creator,omitempty"`
	Date        string       `json:"date,omitempty"`
	PrimaryID   string       `json:"primary_id,omitempty"`
	LocalIDs    []string     `json:"local_ids,omitempty"`
	Note        string       `json:"note,omitempty"`
	Update      bool         `json:"update,omitempty"`
	Bound       string       `json:"bound,omitempty"` // as in BatchSpec
	Within      []string     `json:"within,omitempty"`
}

// BatchHead is what lists and reports show of a [BatchSpec]. Reading it keeps no more of a spec, which may be large.
type BatchHead struct {
	Profile   string `json:"profile"`
	Submitter string `json:"submitter"`
	Title     string `json:"title"`
	Filename  string `json:"filename"`
	Note      string `json:"note"`
}

// JobHead is the same of a [JobSpec].
type JobHead struct {
	Type      string   `json:"type"`
	Profile   string   `json:"profile"`
	URL       string   `json:"url"`
	Row       int      `json:"row"`
	Filename  string   `json:"filename"`
	Title     string   `json:"title"`
	Creator   string   `json:"creator"`
	Date      string   `json:"date"`
	PrimaryID string   `json:"primary_id"`
	LocalIDs  []string `json:"local_ids"`
}

// Description is what a submission has about its objects beyond what a [JobSpec] repeats. Its fields are those of
// [api.Submission].
type Description struct {
	DublinCore   map[string][]string `json:"dublin_core,omitempty"`
	ResourceType string              `json:"resource_type,omitempty"`
	RetainTarget bool                `json:"retain_target,omitempty"`
}

// Digest is what the bytes of a file must hash to.
type Digest struct {
	Type  string `json:"type,omitempty"`
	Value string `json:"value,omitempty"`
}

// JobData is what the phases of a job find out. Lists of files are not in it: they may be long and lie in system/.
type JobData struct {
	Files int `json:"files,omitempty"` // to be fetched
	// of what is fetched, as far as it is known; after Processing of the object
	Size     int64     `json:"size,omitempty"`
	Unknown  int       `json:"unknown,omitempty"` // files of unknown size
	Space    int64     `json:"space,omitempty"`   // needed on the working disk; 0: not known
	Identity *Identity `json:"identity,omitempty"`
	// version whose description an update keeps; 0: none
	Before  int               `json:"before,omitempty"`
	Places  []inventory.Place `json:"places,omitempty"`
	Version int               `json:"version,omitempty"`
	// between Storing and Recording: Version is an earlier job's, see Same
	Unchanged bool `json:"unchanged,omitempty"`
	// for a job that added no version; identity, version and copies are empty then
	Same *SameObject `json:"same,omitempty"`
	List string      `json:"list,omitempty"` // of the files of the version that was stored
	// SHA-256 in hex of what the last phase wrote into the work directory and did not sync: of the object's manifest
	// until it is downloaded, then of the list of files until it is stored. A loss of power may have changed the file.
	Unsynced string `json:"unsynced,omitempty"`
	// its working files were cleared away, and are not complete again
	Refilling bool `json:"refilling,omitempty"`
	// what is odd in what was handed in, and no reason to refuse it
	Warnings []string `json:"warnings,omitempty"`
	// after Processing: where peers find the files
	Handed *Handed `json:"handed,omitempty"`
	// peers have processed it, and its working files were made of what they left
	Taken bool `json:"taken,omitempty"`
}

// Handed is where the programs of another system find the files of a processed object, to store them.
type Handed struct {
	Manifest string `json:"manifest"`         // URL of an mrt-add-manifest
	Delete   string `json:"delete,omitempty"` // of an update: a line for each file that it takes out of the object
}

// SameObject is an object that was stored already as the job brought it. The job has no version, so its record names
// none as its own.
type SameObject struct {
	Identity
	Version int `json:"version"`
}

// Object gives who the object is and its version, whether the job added that or found it; nil and 0 before they are
// known.
func (d *JobData) Object() (*Identity, int) {
	if d.Same != nil {
		return &d.Same.Identity, d.Same.Version
	}
	return d.Identity, d.Version
}

// Identity is who and what an object is.
type Identity struct {
	ARK      string   `json:"ark"`
	Minted   bool     `json:"minted,omitempty"`
	LocalIDs []string `json:"local_ids,omitempty"`
	Title    string   `json:"title,omitempty"`
	Creator  string   `json:"creator,omitempty"`
	Date     string   `json:"date,omitempty"`
	// when it ends, in RFC 3339, or none; empty if mrt-embargo.txt was not handed in
	Embargo string `json:"embargo,omitempty"`
}

// DataOf reads what the phases of a job found out.
func DataOf(j *job.Job) (d JobData, err error) {
	if len(j.Data) > 0 {
		if err = json.Unmarshal(j.Data, &d); err != nil {
			err = fmt.Errorf("record of %s: %w", j.ID, err)
		}
	}
	return d, err
}

// SpecOf reads what a job was created with.
func SpecOf(j *job.Job) (s JobSpec, err error) {
	if len(j.Spec) > 0 {
		if err = json.Unmarshal(j.Spec, &s); err != nil {
			err = fmt.Errorf("record of %s: %w", j.ID, err)
		}
	}
	return s, err
}

// IsRecorded reports whether a job has left Recording: the inventory has its version.
func IsRecorded(j *job.Job) bool {
	return j.State == Notify || j.State == Completed || j.LastOK == Recording || j.LastOK == Notify
}
