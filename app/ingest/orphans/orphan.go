// Package orphans finds files, locks and messages without a job, and versions that inventory and storage do not both
// have.
package orphans

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/location"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Logs are the logs of jobs as files; package joblog has them.
type Logs interface {
	// Remove deletes the log of a job; there may be none.
	Remove(id job.ID) error
	// Each calls do with each job that has a log and the time of its last line, until do returns false.
	Each(do func(id job.ID, written time.Time) (goOn bool)) error
}

// Levels of an orphan.
const (
	LevelFail = "FAIL" // older than an hour: nothing will come for it any more
	LevelWarn = "WARN" // younger: it may belong to work that is under way
)

// Bounds of one search for orphans.
const (
	orphanAge   = time.Hour // of a FAIL (3600 s in Merritt)
	orphanMost  = 10_000    // findings
	orphanReads = 50_000    // records, messages, versions or objects that one rule examines
	orphanPages = 1000
)

// Orphan is one finding: a file, lock or message without a job, or a reference to an object that does not exist.
type Orphan struct {
	api.Orphan
	Remove func(context.Context) error `json:"-"` // checks again and removes it; nil if only a person can
}

// Rule is one line of the table of rules. A rule without a search states why it needs none.
type Rule struct {
	Name      string `json:"name"`
	Merritt   string `json:"merritt,omitempty"` // the rules of Merritt's orphan report that it stands for
	Doc       string `json:"doc"`
	Deletable bool   `json:"deletable"`
	Never     string `json:"never,omitempty"` // why it cannot happen here

	look func(*search, context.Context) error
}

const derived = "state, counts and queue are derived from the record in the commit that changes it; stagepost admin " +
	"fsck compares them"

// rules are Merritt's nine rules in our terms, and those that its report lacks. There, indexes are nodes of their own
// and can disagree with what they point to; here they are derived from the record. What lies outside the store can
// disagree still.
var rules = []Rule{
	{Name: "batch-uuid", Merritt: "1, 2", Doc: "a second name of a batch that leads nowhere, or is missing",
		Never: "a batch is found by its id and its key, which stand in its record"},
	{Name: "batch-child", Merritt: "3", Doc: "a batch that lists a job which does not exist",
		Never: "a batch has counts, not a list; " + derived},
	{Name: "job-without-batch", Merritt: "4", Doc: "a job that lives while its batch was deleted or does not exist",
		look: (*search).jobs},
	{Name: "job-status", Merritt: "4, 5", Doc: "a job without a state, or missing where its state requires it",
		Never: derived},
	{Name: "state-entry", Merritt: "6", Doc: "an entry of a queue without its job",
		Never: "queues are made of the records when a store opens; " + derived},
	{Name: "batch-incomplete", Merritt: "7",
		Doc:  "a batch that no worker has claimed and whose expected jobs never came",
		look: (*search).batches},
	{Name: "lock", Merritt: "8", Doc: "a lock of a job that has ended or does not exist: an object, an entry of the " +
		"inventory, a local id", Deletable: true,
		look: (*search).locks},
	{Name: "claim", Merritt: "8", Doc: "a claim that outlived its worker",
		Never: "a claim stands in the job's record and ends with its lease; stagepost stuck lists silent workers"},
	{Name: "two-states", Merritt: "9", Doc: "a job in two states",
		Never: "a record has one state; " + derived},

	{Name: "work-without-batch", Doc: "a work directory whose batch does not exist or was deleted", Deletable: true,
		look: (*search).work},
	// found by work
	{Name: "payload-without-batch", Doc: "a staged payload whose batch was never created", Deletable: true},
	// found by work
	{Name: "report-without-batch", Doc: "reports of a batch that does not exist", Deletable: true},
	// found by work
	{Name: "work-without-job", Doc: "a work directory whose job does not exist", Deletable: true},
	// found by work
	{Name: "work-of-ended", Doc: "a work directory of a job that completed or was deleted", Deletable: true},
	// found by work and storage locations
	{Name: "temporary", Doc: "an unfinished file, or the stage of an attempt that is over", Deletable: true},
	{Name: "package-without-job", Doc: "an access package whose job was deleted or does not exist", Deletable: true,
		look: (*search).packages},
	{Name: "message-without-job", Doc: "a message in the outbox whose job does not exist", look: (*search).messages},
	{Name: "log-without-job", Doc: "the log of a job that does not exist", Deletable: true, look: (*search).logs},
	{Name: "version-missing", Doc: "a version of the inventory that a storage location lacks", look: (*search).kept},
	{Name: "version-unknown", Doc: "an object or version in a storage location that the inventory does not know",
		look: (*search).storage},
}

// Rules gives the table of rules.
func Rules() []Rule { return slices.Clone(rules) }

// Finder finds orphans.
type Finder struct {
	App       App
	Data      string // the data directory
	Engine    *engine.Engine
	Inventory *inventory.Inventory
	Locations *location.Roots
	Tree      *workdir.Tree
	LogFiles  Logs // nil: none
}

// App is the application.
type App interface {
	// moves what a deleted batch or job had to the trash
	Clear(ctx context.Context, j *job.Job) error
	// reports whether the working files of a job are not needed any more
	Useless(j *job.Job) bool
	ReleaseLocks(ctx context.Context, locks []inventory.Lock) error // and lets those go on that wait for them
}

// search is one run of the rules.
type search struct {
	*Finder
	at     time.Time
	all    []Orphan
	report api.Orphans         // of all, without the orphans
	known  map[job.ID]*job.Job // what has been read; nil: does not exist
}

// Find lists the orphans, FAIL before WARN and the oldest first. It changes nothing, and its work is bounded.
func (f *Finder) Find(ctx context.Context) (api.Orphans, error) {
	_, r, err := f.Search(ctx)
	return r, err
}

// Search is as [Finder.Find], and also returns how each orphan is removed.
func (f *Finder) Search(ctx context.Context) ([]Orphan, api.Orphans, error) {
	o := &search{Finder: f, at: f.Engine.Clock().Now(), known: map[job.ID]*job.Job{}}
	o.report = api.Orphans{At: o.at, Orphans: []api.Orphan{}}
	for i := range rules {
		if look := rules[i].look; look != nil {
			if err := look(o, ctx); err != nil {
				return nil, o.report, fmt.Errorf("orphans: %s: %w", rules[i].Name, err)
			}
		}
	}
	slices.SortStableFunc(o.all, func(a, b Orphan) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), a.Since.Compare(b.Since))
	})
	for i := range o.all {
		o.report.Orphans = append(o.report.Orphans, o.all[i].Orphan)
	}
	return o.all, o.report, nil
}

// found adds a finding. remove is nil if only a person can remove it.
func (o *search) found(f api.Orphan, remove func(context.Context) error) {
	if len(o.all) == orphanMost {
		o.cut(fmt.Sprintf("there are more than %d", orphanMost))
		return
	}
	age := max(o.at.Sub(f.Since), 0)
	f.Seconds, f.Level, f.Deletable = int64(age/time.Second), LevelWarn, remove != nil
	if age > orphanAge {
		f.Level = LevelFail
		if f.Deletable {
			o.report.Deletable++
		}
	}
	o.all = append(o.all, Orphan{f, remove})
}

// cut notes once where the search stopped.
func (o *search) cut(where string) {
	if !slices.Contains(o.report.Cut, where) {
		o.report.Cut = append(o.report.Cut, where)
	}
}

// job returns the record of a job as the search read it first, nil if there is none.
func (o *search) job(ctx context.Context, id job.ID) (*job.Job, error) {
	if j, ok := o.known[id]; ok {
		return j, nil
	}
	j, err := o.Engine.Store().Get(ctx, id)
	switch {
	case err == nil:
		j.Spec, j.Data = nil, nil
		o.known[id] = &j
	case job.KindOf(err) == job.NotFound:
		o.known[id] = nil
	default:
		return nil, err
	}
	return o.known[id], nil
}

// Fix is a request to remove orphans.
type Fix struct {
	Expect int    // how many the person saw that are deletable and FAIL
	Actor  string // who
	Note   string // why
}

// Fix removes exactly the deletable orphans with level FAIL, each entered in the audit list before it goes. The error
// is of kind Conflict if their number is not the expected one: they changed meanwhile. Directories and files
// go to the trash. What belongs to something by now stays.
func (f *Finder) Fix(ctx context.Context, in Fix) (api.FixedOrphans, error) {
	done := api.FixedOrphans{Removed: []api.Orphan{}}
	if in.Note == "" {
		return done, job.Errorf(job.Invalid, "orphans", "",
			"it needs a reason (note), which is entered in the audit log")
	}
	all, r, err := f.Search(ctx)
	if err != nil {
		return done, err
	}
	if r.Deletable != in.Expect {
		return done, job.Errorf(job.Conflict, "orphans", "", "%d can be removed now, %d were expected: list them again",
			r.Deletable, in.Expect)
	}
	for _, one := range all {
		if one.Level != LevelFail || one.Remove == nil {
			continue
		}
		err := f.Engine.Operator().Audit(ctx, operator.Entry{
			By: lifecycle.Operator, Actor: in.Actor, Event: "remove-orphan",
			Object: one.Rule + " " + one.Name, Note: in.Note,
		})
		if err != nil {
			return done, err
		}
		if err := one.Remove(ctx); err != nil {
			if done.Failed == nil {
				done.Failed = map[string]string{}
			}
			done.Failed[one.Name] = err.Error()
			continue
		}
		done.Removed = append(done.Removed, one.Orphan)
	}
	return done, nil
}
