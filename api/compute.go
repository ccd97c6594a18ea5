package api

import (
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// ComputeKind is the kind of jobs that run users' files.
const ComputeKind job.Kind = "compute.job"

// ComputeJob is a compute job as its users see it.
type ComputeJob struct {
	ID       job.ID            `json:"id"`
	Number   int64             `json:"number"` // small, for programs that know jobs by numbers
	Service  string            `json:"service"`
	Owner    string            `json:"owner"`
	User     string            `json:"user"`
	Name     string            `json:"name,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Requires []string          `json:"requires,omitempty"` // labels that its agent must have
	Priority int               `json:"priority"`
	From     job.ID            `json:"from,omitempty"` // the job that it repeats

	State   lifecycle.State   `json:"state"`
	Status  string            `json:"status"` // the word for the state that users' programs know
	Outcome lifecycle.Outcome `json:"outcome,omitempty"`
	Ended   bool              `json:"ended"`
	Cause   string            `json:"cause,omitempty"`   // one word
	Message string            `json:"message,omitempty"` // for people
	Version int64             `json:"version"`

	// among those of its service that wait, 1 for the next; missing beyond the thousandth
	QueuePosition int    `json:"queue_position,omitempty"`
	Agent         string `json:"agent,omitempty"`
	Place         string `json:"place,omitempty"` // where it runs there: a host, a node
	Attempt       int64  `json:"attempt,omitempty"`

	Created  time.Time `json:"created_at"`
	Changed  time.Time `json:"changed_at"`
	Started  time.Time `json:"started_at,omitzero"`
	Finished time.Time `json:"finished_at,omitzero"`
	Expires  time.Time `json:"expires_at,omitzero"` // when its files are removed

	Ending  *ComputeEnding  `json:"ending,omitempty"`
	Results *ComputeResults `json:"results,omitempty"`

	// The rest is only there when one job is asked for.

	Files []ComputeFile     `json:"files,omitempty"` // its inputs
	Env   map[string]string `json:"env,omitempty"`
	Asked *ComputeLimits    `json:"limits_asked,omitempty"`
	// that hold; missing when the service is not there any more
	Limits   *ComputeLimits               `json:"limits,omitempty"`
	Inputs   *bool                        `json:"inputs,omitempty"`
	Callback string                       `json:"callback,omitempty"` // is notified of its end
	Attempts []ComputeAttempt             `json:"attempts,omitempty"` // in vain, to hand it over
	Waits    string                       `json:"waits,omitempty"`    // what it waits for, as its agent reports
	Can      map[string][]lifecycle.Event `json:"can,omitempty"`
	Links    map[string]string            `json:"links,omitempty"`
}

// ComputeEnding is how run.sh ended.
type ComputeEnding struct {
	ExitCode int    `json:"exit_code"` // -1: it did not exit by itself
	Signal   string `json:"signal,omitempty"`
	// exit-code, signal, memory, timeout, cpu, disk, killed, ...; empty: it ended well
	Cause    string `json:"cause,omitempty"`
	Sentence string `json:"sentence,omitempty"`
	Sandbox  string `json:"sandbox,omitempty"`
	WallMS   int64  `json:"wall_ms"`
	CPUMS    int64  `json:"cpu_ms"`
	Memory   int64  `json:"peak_memory_bytes"`
	Disk     int64  `json:"disk_bytes"`
	// what to know of one that ended well: processes of it were ended for memory
	Note   string `json:"note,omitempty"`
	LogCut bool   `json:"log_cut,omitempty"`
}

// ComputeResults are the results of a job as they can be downloaded.
type ComputeResults struct {
	Bytes    int64  `json:"bytes"`
	SHA256   string `json:"sha256"`
	Files    int    `json:"files"`
	Partial  bool   `json:"partial,omitempty"`
	Sentence string `json:"sentence,omitempty"`

	// left out: pipes, sockets, devices, links that lead out, what cannot be read
	Skipped int `json:"skipped,omitempty"`
	// how many by a word: link, fifo, socket, device, size, ...
	Reasons map[string]int    `json:"skipped_reasons,omitempty"`
	Names   []ComputeLeftFile `json:"skipped_files,omitempty"` // the first of them, and of those under other names
	Renamed int               `json:"renamed,omitempty"`       // all there, under other names than they had
}

// ComputeLeftFile is a file that is not in the results of a job, or not under its name.
type ComputeLeftFile struct {
	Name string `json:"name"` // printable
	Why  string `json:"why"`
}

// ComputeAttempt is one attempt to hand a job over, in vain.
type ComputeAttempt struct {
	Agent string `json:"agent"`
	Error string `json:"error,omitempty"`
	At    string `json:"at"`
}

// ComputeFile is a file of a job: an input, or an entry of its results.
type ComputeFile struct {
	From     string    `json:"from"` // inputs or results
	Name     string    `json:"name"`
	Size     int64     `json:"size"`
	Mode     string    `json:"mode,omitempty"` // "-rw-r--r--"
	Modified time.Time `json:"modified,omitzero"`
	SHA256   string    `json:"sha256,omitempty"` // missing of links, and of results that an earlier version fetched
	Link     bool      `json:"link,omitempty"`   // a symbolic link, which is not followed
}

// ComputeFiles is a page of the files of a job.
type ComputeFiles struct {
	Files []ComputeFile `json:"files"`
	Next  string        `json:"next,omitempty"`
}

// ComputePage is one page of a list of compute jobs. With Name or Labels it may have fewer than the limit, even none,
// and still a next one.
type ComputePage struct {
	Jobs []ComputeJob `json:"jobs"`
	Next string       `json:"next,omitempty"`
}

// ComputeRepeat asks for a new job of the files of another one. Of the fields that are set each replaces what that
// one had.
type ComputeRepeat struct {
	Service string `json:"service,omitempty"`
	Name    string `json:"name,omitempty"`
	// laid over that of the other; an empty value takes a variable away
	Env      map[string]string `json:"env,omitempty"`
	Limits   ComputeLimits     `json:"limits,omitzero"`
	Labels   map[string]string `json:"labels,omitempty"`
	Requires []string          `json:"requires,omitempty"` // of a clone
	Priority *int              `json:"priority,omitempty"`
	Callback *string           `json:"callback,omitempty"` // of a clone; the empty text takes it away
	Key      string            `json:"key,omitempty"`
	Confirm  bool              `json:"confirm,omitempty"` // of a retry: although it had completed
	Note     string            `json:"note,omitempty"`
	Actor    string            `json:"actor,omitempty"`
	As       string            `json:"as,omitempty"`
}

// ComputeService is a service that users can order, and its present state.
type ComputeService struct {
	Name        string        `json:"name"`
	RunsPerUser int           `json:"runs_per_user"` // jobs of one user that run at once
	MaxRuns     int           `json:"max_runs"`      // jobs that run at once
	Agents      []string      `json:"agents,omitempty"`
	Limits      ComputeLimits `json:"limits,omitzero"` // of a job that asks for none
	Max         ComputeLimits `json:"max,omitzero"`    // that a job may ask for
	Running     int64         `json:"running"`         // jobs that hold a slot
	Queued      int64         `json:"queued"`
}

// ComputeServices is the answer about the services.
type ComputeServices struct {
	Services []ComputeService `json:"services"`
}

// ComputeAgent is an agent in the registry of the server.
type ComputeAgent struct {
	Name     string    `json:"name"`
	Kind     string    `json:"kind"` // agent, slurm, or what a module calls its own
	Up       bool      `json:"up"`
	Since    time.Time `json:"since,omitzero"`
	Error    string    `json:"error,omitempty"`
	Services []string  `json:"services"` // none: all
	Labels   []string  `json:"labels"`   // that jobs can require, such as gpu or zone=b
	Slots    int       `json:"slots"`    // 0: not known
	Free     int       `json:"free"`
	Waiting  int       `json:"waiting"`
	Reserved int       `json:"reserved"`
	Load     float64   `json:"load"`             // of its processors, in percent
	Draining bool      `json:"draining"`         // it gets nothing new, by its own word or this server's
	Memory   int64     `json:"memory,omitempty"` // bytes that its jobs together may ask for; 0: not known
	Cores    float64   `json:"cores,omitempty"`  // the same of processors

	Drain *ComputeDrain `json:"drain,omitempty"` // who drains it from this server; missing: it is not drained
	// of this server that it has, up to 1000; only when it is drained or resumed
	Jobs    int    `json:"jobs,omitempty"`
	Sandbox string `json:"sandbox,omitempty"`
	Detail  string `json:"detail,omitempty"`
	Server  string `json:"server,omitempty"` // of the store that has it, if it is another one
}

// ComputeDrain is an operator's word that an agent is to get no new jobs from this server.
type ComputeDrain struct {
	Who   string    `json:"who"`
	Why   string    `json:"why,omitempty"`
	Since time.Time `json:"since"`
}

// ComputeAgents is the answer about the agents.
type ComputeAgents struct {
	Agents []ComputeAgent `json:"agents"`
}

// ComputeOwner is what an owner uses.
type ComputeOwner struct {
	Owner   string           `json:"owner"`
	Jobs    int64            `json:"jobs"`  // whose files are here
	Files   int64            `json:"files"` // of them, results included
	Bytes   int64            `json:"bytes"`
	Running map[string]int64 `json:"running"` // by service
	Queued  map[string]int64 `json:"queued"`  // by service
}

// ComputeUsage is the answer about what owners use.
type ComputeUsage struct {
	Owners []ComputeOwner `json:"owners"`
	// bytes of files that one owner may have here; missing: no bound
	MostBytes int64 `json:"most_bytes,omitempty"`
	More      bool  `json:"more,omitempty"` // there are more jobs than were counted
}
