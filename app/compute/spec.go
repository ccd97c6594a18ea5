package compute

import (
	"encoding/json"
	"time"

	"github.com/stagepost/stagepost/job"
)

// JobKind is the kind of jobs as the server sees them, PayloadKind as their agent does.
const (
	JobKind     job.Kind = "compute.job"
	PayloadKind job.Kind = "compute.payload"
)

// Spec is what a job was created with. It never changes. The job's group is its service, its owner the user who may see
// it.
type Spec struct {
	User     string            `json:"user"` // as in the system that the order came from; else the owner
	Service  string            `json:"service"`
	Name     string            `json:"name,omitempty"`  // for people
	Files    []File            `json:"files"`           // that came with the order
	Fetch    []RemoteFile      `json:"fetch,omitempty"` // that are fetched, unless Files has them
	Env      map[string]string `json:"env,omitempty"`
	Limits   Limits            `json:"limits,omitzero"` // that were asked for
	Labels   map[string]string `json:"labels,omitempty"`
	Requires []string          `json:"requires,omitempty"` // labels that were asked for
	// labels that its agent must have: those of the order and of its service at that time
	AgentLabels []string `json:"agent_labels,omitempty"`
	Inputs      *bool    `json:"inputs,omitempty"`   // in the results; nil: as the service states
	From        job.ID   `json:"from,omitempty"`     // the job that it repeats
	Callback    string   `json:"callback,omitempty"` // the URL that is notified of its end
	// digest of what was uploaded, to distinguish a repetition from another upload under the same key
	Upload   string          `json:"upload,omitempty"`
	Uploads  []string        `json:"uploads,omitempty"`  // resumable uploads that files were
	Imported *Imported       `json:"imported,omitempty"` // it ended elsewhere
	TES      json.RawMessage `json:"tes,omitempty"`      // the task of GA4GH TES that it was made of
}

// Imported reports how a job stood in another system, from which it was imported.
type Imported struct {
	From    string `json:"from"`              // which database
	Word    string `json:"word"`              // its status there, in lower case
	Missing bool   `json:"missing,omitempty"` // its files were gone when it was imported
	Results string `json:"results,omitempty"` // name of the results' file in the job's directory
	Created string `json:"created,omitempty"` // as it was written there
}

// Data is what steps found out of a job.
type Data struct {
	Handle
	Agent    string    `json:"agent,omitempty"`   // the executor that has it, or is to get it
	Tried    []string  `json:"tried,omitempty"`   // executors that did not take it in this round
	Tries    int       `json:"tries,omitempty"`   // to hand it over, in vain
	Full     int       `json:"full,omitempty"`    // refusals in a row for lack of space; no tries
	Sent     bool      `json:"sent,omitempty"`    // it may have arrived at the agent: no other may get it
	Silent   int       `json:"silent,omitempty"`  // queries in vain
	Heard    time.Time `json:"heard,omitzero"`    // of the first of them
	Notice   *Notice   `json:"notice,omitempty"`  // the last one
	Results  *Results  `json:"results,omitempty"` // what is here of its results
	Attempts []Past    `json:"attempts,omitempty"`
	Fetched  []File    `json:"fetched,omitempty"`  // inputs that came since
	Loads    int       `json:"loads,omitempty"`    // of inputs, in vain
	Fetches  int       `json:"fetches,omitempty"`  // of results, in vain, since they were last begun
	Failures int       `json:"failures,omitempty"` // times that they were abandoned
	Killed   bool      `json:"killed,omitempty"`   // its agent was requested to end it
	Asked    time.Time `json:"told,omitzero"`      // so, for the last time
	Began    time.Time `json:"began,omitzero"`     // when this server first learned that it runs
	Over     time.Time `json:"over,omitzero"`      // and that it does not any more
	Overtime bool      `json:"overtime,omitempty"` // it is ended because it ran for too long
}

// Past is one attempt to submit a job to an agent.
type Past struct {
	Agent string `json:"agent"`
	Error string `json:"error,omitempty"`
	At    string `json:"at"` // RFC 3339
}

// Results are the results of a job as they lie in its directory.
type Results struct {
	Bytes    int64  `json:"bytes"`
	SHA256   string `json:"sha256"`
	Files    int    `json:"files"`
	Partial  bool   `json:"partial,omitempty"` // not taken after its regular end
	Sentence string `json:"sentence,omitempty"`
	LeftOut
}

// SpecOf reads the spec of a job.
func SpecOf(j *job.Job) (s Spec, err error) {
	if err = json.Unmarshal(j.Spec, &s); err != nil {
		err = job.Errorf(job.Internal, "compute", j.ID, "its spec cannot be read: %w", err)
	}
	return s, err
}

// RecordOf reads the spec and the data of a job.
func RecordOf(j *job.Job) (s Spec, d Data, err error) {
	if s, err = SpecOf(j); err == nil {
		d, err = DataOf(j)
	}
	return s, d, err
}

// DataOf reads the data of a job.
func DataOf(j *job.Job) (d Data, err error) {
	if len(j.Data) == 0 {
		return d, nil
	}
	if err = json.Unmarshal(j.Data, &d); err != nil {
		err = job.Errorf(job.Internal, "compute", j.ID, "its data cannot be read: %w", err)
	}
	return d, err
}
