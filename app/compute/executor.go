package compute

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"syscall"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Ticket names one attempt at a job. An executor runs it once and never twice, however often it is handed over: that is
// what settles a lost answer (reliability holes J3 to J5).
type Ticket struct {
	Job     job.ID `json:"job"`
	Attempt int64  `json:"attempt"` // 1 for the first; raised when the job is sent anew
	Secret  string `json:"secret"`  // random; required in each request about the payload
}

// Handle identifies a payload to its executor.
type Handle struct {
	Ticket
	Remote string `json:"remote,omitempty"` // the executor's own name for it; empty while no answer came
	// of the executor's memory at the time; another one has forgotten everything
	Instance string `json:"instance,omitempty"`
}

// File is a file of a job, in the directory of a [Parcel].
type File struct {
	Name   string `json:"name"` // one path element: uploads are flat
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // hexadecimal
}

// InputModes gives the modes that inputs have in results. They are uploaded without one; scripts that unpack results
// and run an input rely on 0755. What the script made keeps its mode.
func InputModes(files []File) map[string]fs.FileMode {
	modes := map[string]fs.FileMode{}
	for _, f := range files {
		modes[f.Name] = 0o755
	}
	return modes
}

// Parcel is what an executor gets.
type Parcel struct {
	Ticket
	// from the handle of an earlier try: a memory of another name may have run it, and must not take it
	Instance string            `json:"instance,omitempty"`
	Service  string            `json:"service"`
	Owner    string            `json:"owner"`
	Files    []File            `json:"files"`
	Env      map[string]string `json:"env,omitempty"`
	Limits   Limits            `json:"limits,omitzero"`
	Inputs   bool              `json:"inputs,omitempty"` // the results are to hold the inputs, too, changed or not
	// paths of the agent's machine that the server counts on, /opt/tool or /opt/tool:/tool: an agent that does not show
	// them refuses
	Binds   []string `json:"binds,omitempty"`
	Network string   `json:"network,omitempty"` // host, if the server counts on the machine's network: likewise

	// Open opens a file by its name; it is not sent as JSON.
	Open func(name string) (io.ReadSeekCloser, error) `json:"-"`
}

// Standing is how a payload stands at its executor.
type Standing string

// The standings. The first three and Ended are in the order in which they come.
const (
	Waits    Standing = "prepared" // taken, and waits for capacity there
	Works    Standing = "running"
	Ended    Standing = "ended"
	Stranger Standing = "stranger" // it never had it, and it remembers everything: the parcel may be handed over again
	Lost     Standing = "lost"     // it had or may have had it, and has no record any more
)

// Notice is what an executor reports of a payload.
type Notice struct {
	Standing Standing  `json:"standing"`
	Remote   string    `json:"remote,omitempty"`
	Instance string    `json:"instance,omitempty"`
	Reason   string    `json:"reason,omitempty"` // why it waits there, or was lost; shown by `why`
	Started  time.Time `json:"started,omitzero"`
	Finished time.Time `json:"finished,omitzero"`
	Ending   *Ending   `json:"ending,omitempty"` // of one that ended

	Place     string `json:"place,omitempty"` // where it runs: a host, a node
	HasResult bool   `json:"has_result,omitempty"`
	Bytes     int64  `json:"bytes,omitempty"`  // of the results; -1: not known before they are fetched
	SHA256    string `json:"sha256,omitempty"` // of the results; empty: not known
	LeftOut          // of the results, as far as it is known
}

// Causes of jobs that did not end well. They are apart from what went wrong with the transfer (reliability hole J9).
const (
	CauseExit     = "exit-code"    // run.sh ended with another code than 0
	CauseSignal   = "signal"       // a signal ended it
	CauseMemory   = "memory"       // it used more memory than it may
	CauseTimeout  = "timeout"      // wall-clock time
	CauseCPU      = "cpu"          // CPU time
	CauseDisk     = "disk"         // it wrote more than it may
	CauseDepth    = "depth"        // it nested directories more deeply than can be measured
	CauseKilled   = "killed"       // it was ended on request
	CauseRejected = "rejected"     // it could never run: no run.sh, refused by the script policy
	CauseAgent    = "agent-died"   // its agent was killed while it ran; nothing of it goes on
	CauseLost     = "lost"         // it is unknown what became of it
	CauseNode     = "node-failed"  // the cluster lost the machine
	CausePreempt  = "preempted"    // the cluster wanted the machine for others
	CauseAgents   = "unreachable"  // no agent took it
	CauseResults  = "results-lost" // it ended, and its results cannot be had whole
	CauseInputs   = "inputs-lost"  // inputs that its order names by URL cannot be had
)

// Ending is how a payload ended.
type Ending struct {
	Exit     int       `json:"exit_code"`          // -1: it did not exit by itself
	Signal   string    `json:"signal,omitempty"`   // "SIGKILL"
	Cause    string    `json:"cause,omitempty"`    // empty exactly when it ended well
	Sentence string    `json:"sentence,omitempty"` // for people
	Sandbox  string    `json:"sandbox,omitempty"`  // what confined it
	WallMS   int64     `json:"wall_ms"`
	CPUMS    int64     `json:"cpu_ms"`
	Memory   int64     `json:"peak_memory_bytes"`
	Disk     int64     `json:"disk_bytes"`
	Note     string    `json:"note,omitempty"`    // what people should know of one that ended well
	LogCut   bool      `json:"log_cut,omitempty"` // standard output or error was longer than is kept
	Started  time.Time `json:"started_at,omitzero"`
	Finished time.Time `json:"finished_at,omitzero"`
}

// mostReport is how many bytes of a text of a report are kept.
const mostReport = 4 << 10

// bound cuts a report to what is kept: its size is up to the executor, and the record and the history of the job have
// it.
func (n *Notice) bound() {
	texts := []*string{(*string)(&n.Standing), &n.Remote, &n.Instance, &n.Reason, &n.Place, &n.SHA256}
	if e := n.Ending; e != nil {
		texts = append(texts, &e.Signal, &e.Cause, &e.Sentence, &e.Sandbox, &e.Note)
	}
	for _, text := range texts {
		*text = cut(*text, mostReport)
	}
	n.LeftOut = n.LeftOut.bounded()
}

// Capacity is how an executor stands.
type Capacity struct {
	Instance string   `json:"instance"` // of its memory: another one has forgotten everything
	Services []string `json:"services"` // that it serves; empty: all
	// that services and jobs can require, besides those of [Options.AgentLabels]
	Labels   []string `json:"labels,omitempty"`
	Slots    int      `json:"slots"`   // payloads that it runs at once; 0: not known
	Free     int      `json:"free"`    // of these; meaningful if Slots is not 0
	Waiting  int      `json:"waiting"` // payloads that wait for a slot there
	Load     float64  `json:"load"`    // of its processors, in percent
	Draining bool     `json:"draining,omitempty"`
	Kind     string   `json:"kind"` // agent, slurm, or what a module calls its own
	Sandbox  string   `json:"sandbox,omitempty"`
	Detail   string   `json:"detail,omitempty"` // for people
	Memory   int64    `json:"memory,omitempty"` // bytes that payloads together may ask for; 0: any amount, or not known
	Cores    float64  `json:"cores,omitempty"`  // the same of processors
	Space    *int64   `json:"space,omitempty"`  // bytes on its disk for files of new payloads; nil: not known
	Events   bool     `json:"-"`                // it notifies when something changes: no polling is needed
}

// Executor runs payloads somewhere: in an agent, a cluster, another system. All methods may be called by many at once;
// each may take as long as its context lets it. An error reports that there was no answer, and nothing about the
// payload; what the executor has is a [Notice].
type Executor interface {
	// Capacity asks how it stands.
	Capacity(ctx context.Context) (Capacity, error)

	// Submit sends a parcel, once: a second time with the same ticket gives what became of the first. [ErrNotSent]
	// reports that it cannot have arrived; a [Refusal] that it was refused and will not be run; after any other error
	// it may be running.
	Submit(ctx context.Context, p *Parcel) (Notice, error)

	// Query asks how a payload stands.
	Query(ctx context.Context, h Handle) (Notice, error)

	// Kill has a payload ended, if it has not. It may return before it is.
	Kill(ctx context.Context, h Handle) error

	// Results gives the results of a payload that ended, as a ZIP. The caller checks it against the notice.
	Results(ctx context.Context, h Handle) (io.ReadCloser, error)

	// Partial gives what there is now, as a ZIP, in any standing. [ErrNoPayload]: there is nothing.
	Partial(ctx context.Context, h Handle) (io.ReadCloser, error)

	// Log gives standard output ("stdout") or error ("stderr") from a byte on; with follow until the payload ends.
	// [ErrNoPayload]: there is none here.
	Log(ctx context.Context, h Handle, stream string, offset int64, follow bool) (io.ReadCloser, error)

	// Forget reports that the server has everything: the payload's files may go. It may be called again.
	Forget(ctx context.Context, h Handle) error
}

// Notifier is an executor that reports when something changes.
type Notifier interface {
	// Notify calls changed for each payload that changed and for its capacity (an empty id), from now until ctx ends or
	// the connection does; then it gives the reason. The caller queries everything once after each call has begun:
	// connected is called when nothing can be missed any more.
	Notify(ctx context.Context, connected func(), changed func(id job.ID)) error
}

// Ticketless is the instance in capacities and handles of executors without tickets. Such an executor runs what is
// submitted twice twice, cannot be asked for a submission whose answer was lost, packs its own control files into
// results, and reports of an ending no more than whether it was good. The word is the one of records that exist.
const Ticketless = "original"

// Ticketed is an executor that reports before its first answer whether it has tickets. Of others the instance of their
// capacity reports it.
type Ticketed interface {
	// Ticketless reports whether it has none, as far as it is known.
	Ticketless() bool
}

// Errors of executors.
var (
	ErrNotSent   = errors.New("the parcel cannot have arrived")
	ErrNoPayload = errors.New("there is no such payload there")
)

// Refusal is an executor's answer that it will not run a parcel.
type Refusal struct {
	Reason string
	Here   bool // only this executor will not: another may
	Full   bool // its disk has no space at present: it may take the parcel later
}

// Error is part of error.
func (r *Refusal) Error() string { return r.Reason }

// Is makes errors.Is(err, syscall.ENOSPC) true of a refusal for lack of space.
func (r *Refusal) Is(target error) bool { return r.Full && target == syscall.ENOSPC }
