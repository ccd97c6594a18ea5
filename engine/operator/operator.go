// Package operator has the operations of people on an engine, besides the transitions of a lifecycle.
package operator

import (
	"context"
	"encoding/json"
	"time"

	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Acts are the acts of operators. Each is entered in the audit list with the person and the reason. Without a person
// they are Invalid. The reason may be empty where the method does not require one.
type Acts interface {
	// Hold keeps the jobs of a scope from being worked on: none is claimed or begun after Hold has returned, and
	// running steps end with their state. With a zero until, the hold lasts until its release. It returns all holds.
	// Without a reason it is Invalid.
	Hold(ctx context.Context, s job.Scope, who, why string, until time.Time) ([]job.Hold, error)

	// Release ends the hold of a scope. Jobs that the hold parked stay until a person releases each of them.
	Release(ctx context.Context, s job.Scope, who, why string) ([]job.Hold, error)

	// SetPriority changes the priority of a job, which may be claimed. A job that waits for a person because its
	// attempts or starts are used up gets all of them again and is due. version is that of the record that the person
	// saw; 0: the current one. Errors: NotFound, Refused for a job that has ended, Conflict.
	SetPriority(ctx context.Context, id job.ID, version int64, p int, who, why string) (job.Job, error)

	// Replay makes messages due again that were delivered or abandoned, with all their attempts left. Nothing is
	// replayed if one of the keys is wrong: NotFound, or Conflict for a message that is pending.
	Replay(ctx context.Context, keys []string, who, why string) error

	// ConfirmClock records that a person has checked the wall clock. After a jump forward, everything that has ended is
	// kept for its full time from now on. Errors: Invalid without a reason, Refused if the clock is not in doubt.
	ConfirmClock(ctx context.Context, who, why string) (clock.State, error)

	// Discard causes the timer's event of an ended job early, under the same conditions as retention. It does not read
	// Event and Confirm of the act. A tombstone is not changed and is no error. Errors: NotFound, Refused (it has not
	// ended, no timer leaves its end, its batch needs it), Conflict.
	Discard(ctx context.Context, a Act) (job.Job, error)

	// Amend corrects the tasks and data of an unclaimed job, not its state. It does not read Confirm and Now of the
	// act. Errors: NotFound, Invalid without an actor or a note, Conflict if a worker has the job or the version is no
	// longer current.
	Amend(ctx context.Context, a Act, object string, change Correction) (job.Job, error)

	// RetryTask has a task of a running job tried again on its own, as Work.Again of its kind permits. The job keeps
	// its state and its claim. It does not read Event, Confirm and Now of the act. Errors: NotFound for an unknown job
	// or task, Refused if the task is not tried again on its own now, Invalid without an actor, Conflict.
	RetryTask(ctx context.Context, a Act, task string) (job.Job, error)

	// Audit enters an act that changes no job. Events of jobs and holds are entered by the acts themselves.
	Audit(ctx context.Context, n Entry) error
}

// Act is an event that a person causes. Like a worker's outcome it is checked by the lifecycle and the version, and
// committed at once.
type Act struct {
	Job     job.ID
	Event   lifecycle.Event
	By      lifecycle.Actor // Operator or Owner
	Actor   string          // who
	Note    string          // why
	Version int64           // of the record that the person saw; 0: the current one
	Confirm bool            // the person was shown what the event loses, and confirms it
	Now     bool            // interrupts the running work where the event would let it finish; other events ignore it
}

// Correction returns the tasks and the data that a record is to have. It may be called again; its error stops the act.
type Correction func(*job.Job) ([]job.Task, json.RawMessage, error)

// Entry is an act that changes no job, such as a lock that was broken or profiles that were read again.
type Entry struct {
	By     lifecycle.Actor // defaults to Operator
	Actor  string          // who
	Event  lifecycle.Event // what, one word
	Object string          // to what
	Note   string          // why
}
