package merritt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/zookeeper"
	"github.com/stagepost/stagepost/store/zookeeper/merritt"
)

// Options are the settings of a Follower.
type Options struct {
	// Every is the time between readings of the nodes, besides those after changes that are notified: 15 s by default,
	// the interval of Merritt's own programs.
	Every time.Duration
	// Settle is how old nodes must be that are repaired, and how long those of a record must be missing before it ends:
	// one minute by default.
	Settle time.Duration
	// Queue is the directory in which Merritt keeps the payloads of batches and jobs, and the working files of jobs,
	// "<home>/queue". Without it, Stagepost follows what Merritt's programs do with the batches that they created, and
	// works on none of them.
	Queue string
	// Files is the URL below which Merritt's storage reads the work directories of this server, Storage the address of
	// that storage, and Node the number of its node in which objects are stored. Without all three, Merritt's programs
	// cannot continue in Storing with a job that Stagepost has processed.
	Files, Storage string
	Node           int

	Profiles profile.Source
	Log      *slog.Logger
}

// Follower makes the records of ingest follow the nodes of Merritt. Call Run.
type Follower struct {
	o      Options
	store  *zookeeper.Store
	link   *merritt.Link
	app    *ingest.App
	engine *engine.Engine

	objects  sync.Mutex          // a job takes a lock of Merritt, or a reading compares them with the inventory
	released chan inventory.Lock // whose locks of Merritt are to be released

	mu       sync.Mutex // guards what follows
	findings []Finding
	passes   chan struct{} // closed when a reading has ended
	failed   error         // of the last reading
}

// Finding is a difference between nodes and record that no event explains, or a node that cannot be used.
type Finding struct {
	Node  string
	Text  string
	Since time.Time
}

// New shows the records of a store in Merritt's nodes from now on. The follower follows when it is run.
func New(ctx context.Context, store *zookeeper.Store, o Options) (*Follower, error) {
	if o.Every <= 0 {
		o.Every = 15 * time.Second
	}
	if o.Settle <= 0 {
		o.Settle = time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	f := &Follower{o: o, store: store, passes: make(chan struct{}), released: make(chan inventory.Lock, 1024)}
	m := Mapping(o.Profiles)
	m.Stored, m.Continues, m.Workable = f.o.stored, f.o.continues, f.o.workable
	f.link = merritt.New(m, merritt.Options{})
	if err := store.Attach(ctx, f.link); err != nil {
		return nil, err
	}
	return f, f.link.Init(ctx)
}

// Run follows until ctx ends. app and e are those that work on the records.
func (f *Follower) Run(ctx context.Context, app *ingest.App, e *engine.Engine) {
	f.app, f.engine = app, e
	wake := make(chan struct{}, 1)
	signal := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	go f.link.Watch(ctx, signal)
	go f.unlock(ctx)
	go f.repair(ctx)
	tick := time.NewTicker(f.o.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-tick.C:
		}
		again, err := f.pass(ctx)
		if err != nil && ctx.Err() == nil {
			f.o.Log.Warn("nodes of Merritt", "error", err)
		}
		if again {
			signal()
		}
		select { // each change of a queue is notified, those by this server too
		case <-ctx.Done():
		case <-time.After(min(f.o.Every, calm)):
		}
	}
}

// calm is the least time between two readings.
const calm = 250 * time.Millisecond

// pass reads the nodes once, and moves the records that differ. It reports whether another pass has something to do.
func (f *Follower) pass(ctx context.Context) (again bool, err error) {
	p := &pass{Follower: f}
	err = errors.Join(p.locks(ctx), p.objectLocks(ctx), p.records(ctx))
	p.end(err)
	return p.again, err
}

// Passed returns a channel that is closed at the end of a reading, which may have begun before the call.
func (f *Follower) Passed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.passes
}

// Findings returns what the last reading found and could not follow.
func (f *Follower) Findings() []Finding {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.findings)
}

// Warnings are the first findings as sentences, and why the nodes cannot be read.
func (f *Follower) Warnings() (all []string) {
	f.mu.Lock()
	failed := f.failed
	f.mu.Unlock()
	if failed != nil {
		all = append(all, "the nodes of Merritt cannot be read: "+failed.Error())
	}
	found := f.Findings()
	first := found[:min(len(found), mostWarnings)]
	all = append(all, sentences(first)...)
	if more := len(found) - len(first); more > 0 {
		all = append(all, fmt.Sprintf("and %d more findings in Merritt's nodes: stagepost admin health -o json", more))
	}
	return all
}

// Sentences are the findings as sentences, at most 1,000.
func (f *Follower) Sentences() []string {
	found := f.Findings()
	first := found[:min(len(found), mostSentences)]
	all := sentences(first)
	if more := len(found) - len(first); more > 0 {
		all = append(all, fmt.Sprintf("and %d more findings in Merritt's nodes, which are in the log", more))
	}
	return all
}

func sentences(findings []Finding) (all []string) {
	for _, one := range findings {
		all = append(all, one.Node+": "+one.Text)
	}
	return all
}

// mostWarnings and mostSentences bound the findings that are listed by Warnings and by Sentences.
const (
	mostWarnings  = 10
	mostSentences = 1000
)

// pass is one reading.
type pass struct {
	*Follower
	found []Finding
	again bool
}

// find notes a finding. One that was there before keeps its time.
func (p *pass) find(node, format string, args ...any) {
	one := Finding{Node: node, Text: fmt.Sprintf(format, args...), Since: p.engine.Clock().Now()}
	if was, ok := p.before(node, one.Text); ok {
		one.Since = was.Since
	} else {
		p.o.Log.Warn("nodes of Merritt", "node", node, "finding", one.Text)
	}
	p.found = append(p.found, one)
}

// before returns the same finding of the reading before.
func (p *pass) before(node, text string) (Finding, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.findings {
		if one.Node == node && one.Text == text {
			return one, true
		}
	}
	return Finding{}, false
}

func (p *pass) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed = err; err == nil {
		p.findings = p.found
	}
	close(p.passes)
	p.passes = make(chan struct{})
}

// locks makes the holds those of the locks of queues and collections.
func (p *pass) locks(ctx context.Context) error {
	holds, err := p.store.Holds(ctx)
	if err != nil {
		return err
	}
	locks, err := p.link.Locks(ctx) // after the holds, whose commits create them
	if err != nil {
		return err
	}
	want := scopes(p.o.Profiles, locks)
	for i := range holds {
		h := &holds[i]
		if _, locked := want[h.Scope]; locked || !h.Until.IsZero() || len(locksOf(p.o.Profiles, h.Scope)) == 0 {
			delete(want, h.Scope)
			continue
		}
		_, err := p.engine.Operator().Release(ctx, h.Scope, merritt.Actor, "unlocked in Merritt")
		if err != nil && job.KindOf(err) != job.NotFound {
			return err
		}
	}
	for scope, lock := range want {
		if err := p.holdFor(ctx, scope, lock); err != nil {
			return err
		}
	}
	return nil
}

// holdFor puts a hold for a lock, unless it has one by now or the lock is gone.
func (p *pass) holdFor(ctx context.Context, s job.Scope, lock merritt.Lock) error {
	locks, err := p.link.Locks(ctx)
	if err != nil || !slices.Contains(locks, lock) {
		return err
	}
	holds, err := p.store.Holds(ctx)
	if err != nil || slices.ContainsFunc(holds, func(h job.Hold) bool { return h.Scope == s }) {
		return err
	}
	_, err = p.engine.Operator().Hold(ctx, s, merritt.Actor, fmt.Sprintf("locked in Merritt: %s", lock), time.Time{})
	return err
}

// records moves the records whose nodes differ. An error of one does not stop the others.
func (p *pass) records(ctx context.Context) error {
	known, err := p.store.Nodes(ctx)
	if err != nil {
		return err
	}
	seen, bad, err := p.link.Read(ctx, known)
	if err != nil {
		return err
	}
	for _, b := range bad {
		p.find(b.Node, "%s", b.Text)
	}
	full, err := p.link.Full(ctx)
	if err != nil {
		return err
	}
	for _, b := range full {
		p.find(b.Node, "%s", b.Text)
	}
	slices.SortStableFunc(seen, func(a, b merritt.Seen) int { return last(&a) - last(&b) })
	for i := range seen {
		s := &seen[i]
		var err error
		if s.Record == "" {
			err = p.unknown(ctx, s)
		} else {
			err = p.follow(ctx, s)
		}
		switch kind := job.KindOf(err); {
		case err == nil:
		case ctx.Err() != nil || kind == job.Unavailable:
			return err
		case kind == job.Conflict || kind == job.Stale: // it changed meanwhile
			p.again = true
		default:
			p.find(s.Node, "it is %s in Merritt, and the record does not follow: %s", s.State, job.Reason(err))
		}
	}
	return nil
}

// last is 1 for a batch whose nodes are gone, which ends after its jobs, and 0 for all else.
func last(s *merritt.Seen) int {
	if s.Gone && s.Kind == record.BatchKind {
		return 1
	}
	return 0
}

// unknown makes a record of nodes that had none when the reading began. Nodes that this server has created since have
// one.
func (p *pass) unknown(ctx context.Context, s *merritt.Seen) error {
	_, known, err := p.store.Node(ctx, s.Node)
	if err != nil {
		return err
	}
	if known {
		p.again = true
		return nil
	}
	return p.adopt(ctx, s)
}

// follow moves a record to the state of its nodes.
func (p *pass) follow(ctx context.Context, s *merritt.Seen) error {
	j, err := p.store.Get(ctx, s.Record)
	switch {
	case job.KindOf(err) == job.NotFound: // it was purged after the reading, with its nodes
		return nil
	case err != nil:
		return err
	case s.Gone && j.Ended:
		return nil
	case s.Gone:
		return p.gone(ctx, s, &j)
	case j.Version != s.Version: // it changed after the reading, which is out of date
		p.again = true
		return nil
	}
	if ready, err := p.ready(ctx, s, &j); !ready || err != nil {
		return err
	}
	if s.Priority != j.Priority && s.Kind == record.JobKind && !j.Ended {
		j, err = p.engine.Operator().SetPriority(ctx, j.ID, j.Version, s.Priority, merritt.Actor, "changed in Merritt")
		if err != nil {
			return err
		}
	}
	if j.State == s.State {
		return nil
	}
	life := p.engine.Life(j.Kind)
	if route := path(life, j.Position, s.State); route != nil {
		return p.walk(ctx, s, &j, route, noted+" "+s.Message)
	}
	if reenters(life, &j, s.State) {
		return p.retry(ctx, s, &j)
	}
	return p.restore(ctx, s, &j, fmt.Sprintf("which no event of %s leads to", j.State))
}

// noted begins the note of an event that a program of Merritt caused, before the message of the status.
const noted = "in Merritt:"

// walk moves a record along a route. If that is refused twice, and time does not change it, the nodes are given the
// state of the record.
func (p *pass) walk(ctx context.Context, s *merritt.Seen, j *job.Job, route []step, note string) error {
	err := p.commit(ctx, j, route, strings.TrimSpace(note))
	if job.KindOf(err) != job.Refused {
		return err
	}
	text := refusedText(s, err)
	_, was := p.before(s.Node, text)
	temporary, failed := p.temporary(ctx, j)
	switch {
	case failed != nil:
		return failed
	case !was || temporary:
		p.find(s.Node, "%s", text)
		return nil
	}
	return p.restore(ctx, s, j, "which is refused: "+job.Reason(err))
}

// commit commits the events of a route, each at the version of the record that the one before has left.
func (f *Follower) commit(ctx context.Context, j *job.Job, route []step, note string) error {
	for _, one := range route {
		next, err := f.engine.Do(ctx, operator.Act{Job: j.ID, Version: j.Version, Event: one.event, By: one.by,
			Actor: merritt.Actor, Note: note, Confirm: true})
		if err != nil {
			return err
		}
		*j = next
	}
	return nil
}

// gone ends a record whose nodes were removed, as Merritt's cleanup and its admin tool do, when they have been missing
// for some time.
func (p *pass) gone(ctx context.Context, s *merritt.Seen, j *job.Job) error {
	text := fmt.Sprintf("its nodes do not exist: the record %s ends as %s if that remains so", j.ID, record.Deleted)
	was, again := p.before(s.Node, text)
	if !again || p.engine.Clock().Now().Sub(was.Since) < p.o.Settle {
		p.find(s.Node, "%s", text)
		return nil
	}
	route := path(p.engine.Life(j.Kind), j.Position, record.Deleted)
	err := p.commit(ctx, j, route, "its nodes were removed in Merritt")
	if err == nil {
		return nil
	}
	p.find(s.Node, "%s", text)
	if job.KindOf(err) == job.Refused {
		p.find(s.Node, "its nodes do not exist, and the record %s remains %s: %s", j.ID, j.State, job.Reason(err))
		return nil
	}
	return err
}

func refusedText(s *merritt.Seen, err error) string {
	return fmt.Sprintf("it became %s in Merritt, which is refused: %s", s.State, job.Reason(err))
}

// step is one event of a route.
type step struct {
	event lifecycle.Event
	by    lifecycle.Actor
}

// actors are those whose events programs of Merritt cause: workers are tried first.
var actors = []lifecycle.Actor{lifecycle.Worker, lifecycle.Operator, lifecycle.Engine}

// path returns the shortest route of events from a position to a state, nil if there is none.
func path(life *lifecycle.Table, from lifecycle.Position, to lifecycle.State) []step {
	type place struct {
		at    lifecycle.Position
		route []step
	}
	seen := map[lifecycle.State]bool{from.State: true}
	for queue := []place{{at: from}}; len(queue) > 0; queue = queue[1:] {
		here := queue[0]
		for _, by := range actors {
			for _, e := range life.Can(here.at, by) {
				next, err := life.Next(here.at, e, by)
				if err != nil || seen[next.State] {
					continue
				}
				route := append(slices.Clip(here.route), step{e, by})
				if next.State == to {
					return route
				}
				seen[next.State] = true
				queue = append(queue, place{next, route})
			}
		}
	}
	return nil
}
