package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// reservations bound the use of the working disk: the free space, minus a reserve, minus what was promised to jobs that
// have not written it yet. Promises live in memory; a new process takes them from the store. Those that other
// servers of the store made are read from its records at each check.
type reservations struct {
	app *App

	mu       sync.Mutex // guards the rest
	promised map[job.ID]int64
	loaded   bool
}

func newReservations(a *App) *reservations {
	return &reservations{app: a, promised: map[job.ID]int64{}}
}

// spending are the states in which a job may still write what it was promised.
var spending = []lifecycle.State{record.Downloading, record.Processing, record.Storing}

// gate keeps a job in Provisioning while there is no space for it. It only reads: the step promises.
func (r *reservations) gate(ctx context.Context, j *job.Job) *job.Blocker {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.check(ctx, j)
}

// promise reserves the space for a job, or returns why not. Asking again changes nothing.
func (r *reservations) promise(ctx context.Context, j *job.Job, bytes int64) *job.Blocker {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.check(ctx, j); b != nil {
		return b
	}
	r.promised[j.ID] = bytes
	return nil
}

// spend notes how much of its promise a job has still to write.
func (r *reservations) spend(id job.ID, left int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if left <= 0 {
		delete(r.promised, id)
	} else if _, ok := r.promised[id]; ok {
		r.promised[id] = left
	}
}

// tooLarge reports whether a job needs more than the disk has.
func (r *reservations) tooLarge(need int64) (total int64, too bool, err error) {
	_, total, err = r.app.options.Disk(r.app.options.Dir)
	return total, err == nil && need > total-r.app.options.Reserve, err
}

func (r *reservations) check(ctx context.Context, j *job.Job) *job.Blocker {
	need := needs(j)
	free, total, err := r.app.options.Disk(r.app.options.Dir)
	if err != nil {
		return r.blocked(j, "the file system of the data directory does not answer: "+err.Error())
	}
	if err := r.load(ctx); err != nil {
		return r.blocked(j, "the promises of space cannot be read: "+err.Error())
	}
	reserve := r.app.options.Reserve
	if need > total-reserve {
		return nil // the step fails it
	}
	if need == 0 {
		need = reserve // size not known: only while there is plenty
	}
	spare := free - reserve - r.sum(j.ID)
	if spare < need {
		r.prune(ctx)
		spare = free - reserve - r.sum(j.ID)
	}
	e, err := r.elsewhere(ctx, j)
	if err != nil {
		return r.blocked(j, "the promises of other servers cannot be read: "+err.Error())
	}
	spare -= e.promised
	if spare < need {
		b := r.blocked(j, fmt.Sprintf("it needs %d bytes, %d are free and not promised to others", need,
			max(spare, 0)))
		if e.younger { // which waits longer, so that one of the two goes first
			b.Until = r.app.engine.Clock().Now().Add(r.app.options.Look / 4)
		}
		return b
	}
	if first := r.starving(ctx, j); first != nil && spare-need < needs(first) {
		return r.blocked(j, fmt.Sprintf("%s waits for %d bytes since %s and goes first", first.ID, needs(first),
			first.Entered.UTC().Format(time.RFC3339)))
	}
	return nil
}

func (r *reservations) blocked(j *job.Job, sentence string) *job.Blocker {
	return &job.Blocker{
		Code: "space", Sentence: sentence, Since: j.Entered, Until: r.app.engine.Clock().Now().Add(r.app.options.Look),
		Holder: "the disk of the data directory", Remedy: "wait for jobs to end, or free space on the disk",
		Remedies: []job.Remedy{job.Running("admin health", "shows how much space is free")},
	}
}

// needs reads what a job needs from its record.
func needs(j *job.Job) int64 {
	var d record.JobData
	if json.Unmarshal(j.Data, &d) != nil {
		return 0
	}
	return d.Space
}

// sum adds up the promises to others.
func (r *reservations) sum(but job.ID) int64 {
	n := int64(0)
	for id, bytes := range r.promised {
		if id != but {
			n += bytes
		}
	}
	return n
}

// elsewhere is what servers of a shared store have promised, except the promises in memory.
type elsewhere struct {
	promised int64
	younger  bool // a job in it is younger than the one that asks, and not decided yet
}

// elsewhere reads the promises of other servers. A job in Provisioning that another server has claimed counts, though
// its step may not have decided yet: each of two servers has committed its claim before it reads, so at least one of
// them finds the job of the other, and no space is promised twice.
func (r *reservations) elsewhere(ctx context.Context, j *job.Job) (e elsewhere, err error) {
	if r.app.engine.Store().Properties().Exclusive {
		return e, nil
	}
	here := r.app.engine.Status().Worker
	q := job.Query{Kinds: []job.Kind{record.JobKind}, Limit: 1000,
		States: append([]lifecycle.State{record.Provisioning}, spending...)}
	for {
		page, err := r.app.engine.Store().List(ctx, q)
		if err != nil {
			return e, err
		}
		for i := range page.Jobs {
			o := &page.Jobs[i]
			_, counted := r.promised[o.ID]
			undecided := o.State == record.Provisioning
			if o.ID == j.ID || counted || undecided && (!o.Claimed() || o.Worker == here) {
				continue
			}
			e.promised += unwritten(o)
			e.younger = e.younger || undecided && o.Number > j.Number
		}
		if q.After = page.Next; q.After == "" {
			return e, nil
		}
	}
}

// unwritten is what a job has still to write of its promise, by its record.
func unwritten(j *job.Job) int64 {
	var d record.JobData
	if json.Unmarshal(j.Data, &d) != nil {
		return 0
	}
	if j.State == record.Processing || j.State == record.Storing {
		return max(0, d.Space-d.Size) // its files have come
	}
	return d.Space
}

// starving returns the job that waits longest for space, if it is another one and its patience is over.
func (r *reservations) starving(ctx context.Context, j *job.Job) *job.Job {
	page, err := r.app.engine.Store().List(ctx, job.Query{Kinds: []job.Kind{record.JobKind},
		States: []lifecycle.State{record.Provisioning}, Oldest: true, Limit: 1})
	if err != nil || len(page.Jobs) == 0 {
		return nil
	}
	first := page.Jobs[0]
	if first.ID == j.ID || r.app.engine.Clock().Now().Sub(first.Entered) < r.app.options.Patience {
		return nil
	}
	return &first
}

// prune drops the promises of jobs that ended or went elsewhere without a word, as when an operator stops them.
func (r *reservations) prune(ctx context.Context) {
	for id := range r.promised {
		j, err := r.app.engine.Store().Get(ctx, id)
		if job.KindOf(err) == job.NotFound || err == nil &&
			(j.Ended || j.State == record.Recording || j.State == record.Notify) {
			delete(r.promised, id)
		}
	}
}

// load takes the promises of an earlier process from the store, once. Where several servers share it, elsewhere finds
// them.
func (r *reservations) load(ctx context.Context) error {
	if r.loaded || !r.app.engine.Store().Properties().Exclusive {
		return nil
	}
	q := job.Query{Kinds: []job.Kind{record.JobKind}, States: spending, Limit: 1000}
	for {
		page, err := r.app.engine.Store().List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			if j := &page.Jobs[i]; r.promised[j.ID] == 0 {
				r.promised[j.ID] = needs(j)
			}
		}
		if page.Next == "" {
			r.loaded = true
			return nil
		}
		q.After = page.Next
	}
}

// provision is the step of Provisioning: it reserves the space that the gate found. A job that could never fit fails;
// one that does not fit now goes back into the queue, so that smaller ones pass it and no worker waits.
func (t *task) provision(ctx context.Context) error {
	total, too, err := t.app.reserved.tooLarge(t.data.Space)
	if err != nil {
		return err
	}
	if too {
		return fail(CauseTooLarge, "it needs %d bytes, the disk of the data directory has %d in all and keeps %d "+
			"in reserve",
			t.data.Space, total, t.app.options.Reserve)
	}
	j := t.Job()
	if b := t.app.reserved.promise(ctx, &j, t.data.Space); b != nil {
		return engine.Wait(*b)
	}
	return nil
}

// refill brings back working files that were cleared away while the job was failed, so that a retry into a later phase
// finds what it needs: the manifest, the files, what Processing made of them. A directory that Downloading has filled
// always has the list of what came, and the manifest, since a directory is cleared away as a whole. An attempt that is
// interrupted while it brings the files back leaves a list, too; the record states that it is not complete. What a
// phase did not sync is made again if a loss of power has changed it. For a job that peers have processed, the files
// are those that they left.
func (t *task) refill(ctx context.Context) error {
	if err := t.findProcessed(ctx); err != nil {
		return err
	}
	state := t.Job().State
	if state == record.Storing && !t.data.Refilling && !t.untaken() {
		if err := t.relist(ctx); err != nil {
			return err
		}
	}
	later := slices.Contains([]lifecycle.State{record.Processing, record.Storing, record.Recording}, state)
	files := later && (t.data.Refilling || t.untaken() || !t.dir.Has(fetchedList))
	if later && !files {
		return nil
	}
	if t.left != nil {
		return t.refillProcessed(ctx, state)
	}
	manifest, err := t.lacksManifest(ctx, state)
	if err != nil || !manifest && !files {
		return err
	}
	return t.bringBack(ctx, state, manifest, files)
}

// lacksManifest reports whether the manifest of the job's object is to be fetched again.
func (t *task) lacksManifest(ctx context.Context, state lifecycle.State) (bool, error) {
	if t.spec.Type == TypeObjectManifest && state != record.Pending &&
		(t.data.Refilling || !t.dir.Has(manifestFile)) {
		return true, nil
	}
	if state == record.Estimating || state == record.Downloading {
		return t.torn(ctx, manifestFile)
	}
	return false, nil
}

// bringBack fetches the manifest and the files again, or one of them. The record states meanwhile that they are not
// complete.
func (t *task) bringBack(ctx context.Context, state lifecycle.State, manifest, files bool) error {
	j := t.Job()
	if files {
		if b := t.app.reserved.promise(ctx, &j, t.data.Space); b != nil {
			return engine.Wait(*b)
		}
		t.SetMessage("its working files are gone: Downloading starts again")
	}
	t.data.Refilling = true
	if err := errors.Join(t.SetData(t.data), t.Save(ctx)); err != nil {
		return err
	}
	if manifest {
		t.Log().Warn("the object's manifest was cleared away or lost: it is fetched again")
		if err := t.bringManifest(ctx, nil); err != nil {
			return err
		}
		if state == record.Estimating || state == record.Downloading {
			t.data.Unsynced = ""
		}
	}
	if files {
		if err := t.refillFiles(ctx, state); err != nil {
			return err
		}
	}
	t.data.Refilling = false
	return t.dir.Flush() // before the next commit states that they are complete
}

// relist makes the list of the job's files again if a loss of power has changed it. No storage location has the version
// then, because the list is synced before the first one gets it.
func (t *task) relist(ctx context.Context) error {
	if torn, err := t.torn(ctx, ownList); err != nil || !torn || !t.dir.Has(fetchedList) {
		return err // without the list of what came, refill brings everything back
	}
	t.Log().Warn("the list of files was lost: the object is described again")
	if err := t.process(ctx); err != nil {
		return err
	}
	t.data.Unsynced = ""
	return t.dir.Flush()
}

// refillFiles brings back the files, and what Processing made of them.
func (t *task) refillFiles(ctx context.Context, state lifecycle.State) error {
	t.Log().Warn("the working files were cleared away: Downloading starts again")
	if err := t.download(ctx); err != nil || state == record.Processing {
		return err
	}
	return t.reprocess(ctx, state)
}

// reprocess makes what Processing made of the files.
func (t *task) reprocess(ctx context.Context, state lifecycle.State) error {
	if err := t.process(ctx); err != nil {
		return err
	}
	t.data.Unsynced = ""
	if state == record.Recording { // the version is stored: its list is made as it was for Storing
		list, err := t.versionList(ctx)
		if err != nil {
			return err
		}
		t.data.List = list
	}
	return nil
}
