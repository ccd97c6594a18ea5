package layout

import (
	"slices"
	"strings"
)

// Status is a state of a batch, job or access request, as the status nodes have it.
type Status string

// The states.
const (
	Pending         Status = "Pending"
	Held            Status = "Held"
	Estimating      Status = "Estimating"
	Provisioning    Status = "Provisioning"
	Downloading     Status = "Downloading"
	Processing      Status = "Processing"
	Storing         Status = "Storing"
	Recording       Status = "Recording"
	Notify          Status = "Notify"
	Failed          Status = "Failed"
	Completed       Status = "Completed"
	Deleted         Status = "Deleted"
	Reporting       Status = "Reporting"
	UpdateReporting Status = "UpdateReporting"
)

// JobStatuses are the states of jobs. Each has a directory of queue entries.
var JobStatuses = []Status{Pending, Held, Estimating, Provisioning, Downloading, Processing, Storing, Recording, Notify,
	Failed, Completed, Deleted}

// BatchStatuses are the states of batches, AccessStatuses those of access requests.
var (
	BatchStatuses  = []Status{Pending, Held, Processing, Reporting, Failed, UpdateReporting, Completed, Deleted}
	AccessStatuses = []Status{Pending, Processing, Completed, Failed, Deleted}
)

// Dir returns the name of the queue directory of the state: the state in lower case.
func (s Status) Dir() string { return strings.ToLower(string(s)) }

// Queue returns the queue directory of jobs in the state.
func (s Status) Queue() string { return JobStates + "/" + s.Dir() }

// Entry returns the queue entry of a job in the state.
func (s Status) Entry(priority int, j JobID) string { return s.Queue() + "/" + EntryName(priority, j) }

// ParseStatus reads a state. Case and hyphens are ignored: papers about the layout write "update-reporting".
func ParseStatus(text string) (Status, bool) {
	plain := strings.ReplaceAll(strings.ToLower(text), "-", "")
	for _, all := range [][]Status{JobStatuses, BatchStatuses} {
		if i := slices.IndexFunc(all, func(s Status) bool { return s.Dir() == plain }); i >= 0 {
			return all[i], true
		}
	}
	return "", false
}

// BatchDir is a group of states of jobs: a child of the states of a batch that has a reference for each job.
type BatchDir string

// The groups of states of jobs.
const (
	InProcess   BatchDir = "batch-processing"
	IsCompleted BatchDir = "batch-completed"
	IsFailed    BatchDir = "batch-failed"
	IsDeleted   BatchDir = "batch-deleted"
)

// BatchDirs are all groups.
var BatchDirs = []BatchDir{InProcess, IsCompleted, IsFailed, IsDeleted}

// BatchDir returns the group of a job in the state.
func (s Status) BatchDir() BatchDir {
	switch s {
	case Completed:
		return IsCompleted
	case Failed:
		return IsFailed
	case Deleted:
		return IsDeleted
	}
	return InProcess
}

// Table has the transitions of one kind of record. Success and Failure are the states after the success and the failure
// of the work of a state.
type Table struct {
	to      map[Status][]Status
	success map[Status]Status
	failure map[Status]Status
}

// Allowed reports whether the Java library makes the transition.
func (t *Table) Allowed(from, to Status) bool { return slices.Contains(t.to[from], to) }

// Success returns the state after the success of a state; ok is false if it has none.
func (t *Table) Success(from Status) (to Status, ok bool) { to, ok = t.success[from]; return to, ok }

// Failure returns the state after the failure of a state; ok is false if it has none.
func (t *Table) Failure(from Status) (to Status, ok bool) { to, ok = t.failure[from]; return to, ok }

// JobTable, BatchTable and AccessTable are the transitions of states.yml of mrt-zk. AccessTable has one more, Failed to
// Pending: the operator's requeue, which the Ruby library writes and without which no worker acquires the request.
var (
	JobTable = Table{
		to: map[Status][]Status{
			Pending:      {Held, Estimating, Failed},
			Held:         {Pending, Deleted},
			Estimating:   {Provisioning, Failed},
			Provisioning: {Downloading, Failed},
			Downloading:  {Processing, Failed},
			Processing:   {Storing, Failed},
			Storing:      {Recording, Failed},
			Recording:    {Notify, Failed},
			Notify:       {Completed, Failed},
			Failed: {Pending, Estimating, Provisioning, Downloading, Processing, Storing, Recording, Notify,
				Deleted},
		},
		success: map[Status]Status{Pending: Estimating, Estimating: Provisioning, Provisioning: Downloading,
			Downloading: Processing, Processing: Storing, Storing: Recording, Recording: Notify, Notify: Completed},
		failure: map[Status]Status{Pending: Failed, Estimating: Failed, Provisioning: Failed, Downloading: Failed,
			Processing: Failed, Storing: Failed, Recording: Failed, Notify: Failed},
	}
	BatchTable = Table{
		to: map[Status][]Status{
			Pending:         {Held, Processing},
			Held:            {Pending, Deleted},
			Processing:      {Reporting, Failed},
			Reporting:       {Completed, Failed},
			Failed:          {UpdateReporting, Deleted},
			UpdateReporting: {Completed, Failed},
		},
		success: map[Status]Status{Processing: Reporting, Reporting: Completed, UpdateReporting: Completed},
		failure: map[Status]Status{Processing: Reporting, Reporting: Failed, UpdateReporting: Failed},
	}
	AccessTable = Table{
		to: map[Status][]Status{
			Pending:    {Processing},
			Processing: {Completed, Failed},
			Failed:     {Processing, Deleted, Pending},
		},
		success: map[Status]Status{Processing: Completed},
		failure: map[Status]Status{Processing: Failed},
	}
)

// Deletable reports whether the nodes of a record in the state may be removed.
func (s Status) Deletable() bool { return s == Completed || s == Deleted }

// Resume returns the state to which a failed job returns, by its last successful state: the one after it. A job without
// one, and one with a state that no phase has (Held, Failed, which the Java library writes after a retry), returns to
// Estimating.
func Resume(last Status) Status {
	if to, ok := JobTable.Success(last); ok && last != Notify {
		return to
	}
	return Estimating
}

// Active reports whether a job in the state waits for, or is in, a phase of work.
func (s Status) Active() bool { _, ok := JobTable.Success(s); return ok }
