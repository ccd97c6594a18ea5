package ingest

import (
	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/engine"
)

// batchSpec is what a batch is created with.
type batchSpec struct {
	Submission
	Payload payload `json:"payload"`
	User    bool    `json:"user,omitempty"`  // a user handed it in, see AsUser
	Bound   string  `json:"bound,omitempty"` // owner of the user token that it came with: it adds versions only to objects that this user may update
}

// payload is the file that was handed in, at work/<batch>/payload.
type payload struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// batchData is what the phases of a batch find out.
type batchData struct {
	Type     string `json:"type,omitempty"` // as given or found out
	Jobs     int    `json:"jobs,omitempty"`
	Priority int    `json:"priority,omitempty"`
	Cause    string `json:"cause,omitempty"` // why it made no jobs
	Failure  string `json:"failure,omitempty"`
	Reported string `json:"reported,omitempty"` // what the last report said, as a digest
	Reports  int    `json:"reports,omitempty"`  // how many there were
	Last     int    `json:"last,omitempty"`     // generation of the last one
}

// jobSpec is what a job is created with.
type jobSpec struct {
	Type      string   `json:"type"` // file, container or object-manifest
	Profile   string   `json:"profile"`
	Submitter string   `json:"submitter,omitempty"`
	URL       string   `json:"url,omitempty"` // where the payload is; empty: the payload of the batch
	Row       int      `json:"row,omitempty"` // line in the batch manifest
	Filename  string   `json:"filename,omitempty"`
	Size      int64    `json:"size"` // of the payload; -1 when not known
	Digest    digest   `json:"digest,omitzero"`
	Title     string   `json:"title,omitempty"`
	Creator   string   `json:"creator,omitempty"`
	Date      string   `json:"date,omitempty"`
	PrimaryID string   `json:"primary_id,omitempty"`
	LocalIDs  []string `json:"local_ids,omitempty"`
	Note      string   `json:"note,omitempty"`
	Update    bool     `json:"update,omitempty"`
	Bound     string   `json:"bound,omitempty"` // as in batchSpec
}

// digest is what the bytes of a file must hash to.
type digest struct {
	Type  string `json:"type,omitempty"`
	Value string `json:"value,omitempty"`
}

// jobData is what the phases of a job find out. Lists of files are not in it: they may be long and lie in system/.
type jobData struct {
	Files     int               `json:"files,omitempty"`   // to be fetched
	Size      int64             `json:"size,omitempty"`    // of what is fetched, as far as it is known; after Processing of the object
	Unknown   int               `json:"unknown,omitempty"` // files of unknown size
	Space     int64             `json:"space,omitempty"`   // needed on the working disk; 0: not known
	Identity  *identity         `json:"identity,omitempty"`
	Places    []inventory.Place `json:"places,omitempty"`
	Version   int               `json:"version,omitempty"`
	Unchanged bool              `json:"unchanged,omitempty"` // between Storing and Recording: Version is an earlier job's, see Same
	Same      *sameObject       `json:"same,omitempty"`      // instead of Identity, Version and Places, of a job that added no version
	List      string            `json:"list,omitempty"`      // of the files of the version that was stored
	Warnings  []string          `json:"warnings,omitempty"`  // what is odd in what was handed in, and no reason to refuse it
}

// sameObject is an object that was stored already as the job brought it. The job has no version, so its record names none as its own.
type sameObject struct {
	identity
	Version int `json:"version"`
}

// object gives who the object is and its version, whether the job added that or found it; nil and 0 before they are known.
func (d *jobData) object() (*identity, int) {
	if d.Same != nil {
		return &d.Same.identity, d.Same.Version
	}
	return d.Identity, d.Version
}

// identity is who and what an object is.
type identity struct {
	ARK      string   `json:"ark"`
	Minted   bool     `json:"minted,omitempty"`
	LocalIDs []string `json:"local_ids,omitempty"`
	Title    string   `json:"title,omitempty"`
	Creator  string   `json:"creator,omitempty"`
	Date     string   `json:"date,omitempty"`
	Embargo  string   `json:"embargo,omitempty"` // when it ends, in RFC 3339, or none; empty if mrt-embargo.txt was not handed in
}

// task is one attempt at a phase of a job with everything at hand.
type task struct {
	*engine.Run
	app  *App
	spec jobSpec
	data jobData
	dir  *workDir // the job's, locked; nil in phases that need none
}
