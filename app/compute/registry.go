package compute

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
)

// registry records the executors and how they stand, and who waits for one.
type registry struct {
	app  *App
	wait sync.WaitGroup

	mu       sync.Mutex // guards the rest
	ctx      context.Context
	began    time.Time // when ctx came
	members  map[string]*member
	expected map[string]bool  // that come by themselves and have not come yet
	drained  map[string]Drain // that an operator of this server is to get nothing new
	waiting  line
}

// member is an executor on the registry. The registry's lock guards all but the first three.
type member struct {
	name     string
	executor Executor
	stop     context.CancelFunc

	room     Capacity
	heard    bool      // it answered at least once
	since    time.Time // of the first answer, or of the first silence
	seen     time.Time // of the last answer
	err      error     // of the last call; nil: it answers
	live     bool      // it reports by itself what changes
	reserved int       // parcels on their way, which its capacity does not show yet
	asks     int64     // how often it was asked for its capacity
	answered int64     // which of these its capacity is the answer to
	calls    int       // steps that deal with it
}

// Agent is an executor as people see it.
type Agent struct {
	Name  string    `json:"name"`
	Up    bool      `json:"up"`
	Since time.Time `json:"since,omitzero"` // so it stands
	Seen  time.Time `json:"-"`              // of its last answer; zero: it never answered
	Error string    `json:"error,omitempty"`
	Capacity
	Reserved int `json:"reserved"`       // jobs on their way to it
	Jobs     int `json:"jobs,omitempty"` // of this server that it has, up to 1000; only [App.Drain] counts them
	// who drains it here; nil: it is not drained here, but it may drain by itself
	Drain  *Drain `json:"drain,omitempty"`
	Server string `json:"-"` // that has it; empty: this one
}

func newRegistry(a *App) *registry {
	return &registry{app: a, members: map[string]*member{}, expected: map[string]bool{}, drained: map[string]Drain{},
		waiting: newLine()}
}

// Join puts an executor on the registry, instead of one with its name. May be called at any time.
func (a *App) Join(name string, x Executor) {
	r := a.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.members[name]; old != nil && old.stop != nil {
		old.stop()
	}
	m := &member{name: name, executor: x, since: time.Now(), err: errUnasked}
	r.members[name] = m
	delete(r.expected, name)
	if r.ctx != nil {
		r.watch(m)
	}
}

// Leave takes an executor off the registry. Jobs that it has wait for it to come back.
func (a *App) Leave(name string) {
	r := a.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.members[name]; m != nil {
		if m.stop != nil {
			m.stop()
		}
		delete(r.members, name)
		if ctx := r.ctx; ctx != nil {
			r.wait.Go(func() { r.revisit(ctx, name) }) // they report that it is not known any more
		}
	}
}

// Workers lists the executors as workers. A drained one is among those that drain, one that does not answer is silent.
func (a *App) Workers() []api.WorkerInfo {
	var list []api.WorkerInfo
	for _, one := range a.Agents() {
		w := api.WorkerInfo{
			Name: one.Name, State: api.WorkerIdle, Where: "agent", Slots: one.Capacity.Slots, Running: []job.ID{},
			From: []job.KindState{{Kind: JobKind, State: Running}}, Seen: one.Since,
			Labels: append([]string{}, one.Labels...), Tag: AgentTag(one.Name),
		}
		if one.Up {
			w.Jobs = max(0, one.Capacity.Slots-one.Capacity.Free)
		}
		if !one.Seen.IsZero() {
			w.Seen = one.Seen
		}
		switch {
		case !one.Up:
			w.State = api.WorkerSilent
		case one.Draining || one.Capacity.Draining:
			w.State = api.WorkerDraining
		case one.Capacity.Free < one.Capacity.Slots:
			w.State = api.WorkerBusy
		}
		list = append(list, w)
	}
	return list
}

// start begins to watch over the executors.
func (r *registry) start(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ctx, r.began = ctx, time.Now()
	for _, m := range r.members {
		r.watch(m)
	}
}

// watch follows one executor until it leaves. The caller has the lock.
func (r *registry) watch(m *member) {
	ctx, stop := context.WithCancel(r.ctx)
	m.stop = stop
	r.wait.Go(func() { r.poll(ctx, m) })
	if t, ok := m.executor.(Notifier); ok {
		r.wait.Go(func() { r.listen(ctx, m, t) })
	}
}

// poll asks an executor how it stands, every five seconds, and more often while it does not answer.
func (r *registry) poll(ctx context.Context, m *member) {
	pause := 200 * time.Millisecond
	for {
		r.ask(ctx, m)
		r.mu.Lock()
		pause = min(2*pause, 5*time.Second)
		if m.err == nil {
			pause = 5 * time.Second
		}
		r.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// ask asks an executor once how it stands.
func (r *registry) ask(ctx context.Context, m *member) {
	r.mu.Lock()
	m.asks++
	nth := m.asks
	r.mu.Unlock()
	call, cancel := context.WithTimeout(ctx, min(5*time.Second, r.app.options.Answer))
	room, err := m.executor.Capacity(call)
	cancel()
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	if nth < m.answered { // a later question was answered before
		r.mu.Unlock()
		return
	}
	m.answered = nth
	back := err == nil && (m.err != nil || m.room.Draining && !room.Draining || m.room.Instance != room.Instance)
	if (err == nil) != (m.err == nil) || !m.heard {
		m.since = time.Now()
	}
	if m.err = err; err == nil {
		room.Labels = slices.DeleteFunc(room.Labels, func(l string) bool { return !job.IsLabel(l) })
		m.room, m.heard, m.seen = room, true, time.Now()
	}
	r.mu.Unlock()
	if back {
		r.revisit(ctx, m.name)
		r.recall(ctx)
		r.remind(ctx, m.name)
	}
	if err == nil {
		r.call(ctx)
	}
}

// listen receives what an executor reports by itself.
func (r *registry) listen(ctx context.Context, m *member, t Notifier) {
	for pause := 100 * time.Millisecond; ctx.Err() == nil; {
		began := time.Now()
		err := t.Notify(ctx, func() {
			r.mu.Lock()
			m.live = true
			r.mu.Unlock()
			r.revisit(ctx, m.name)
		}, func(id job.ID) {
			if id == "" {
				r.ask(ctx, m)
				return
			}
			r.app.stir(ctx, id)
		})
		r.mu.Lock()
		m.live = false
		r.mu.Unlock()
		if time.Since(began) > time.Minute {
			pause = 100 * time.Millisecond
		}
		r.app.log.Debug("compute: an agent sends no more notifications", "agent", m.name, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, 5*time.Second)
	}
}

// stir requests a query of a job: its executor has a report of it, or answers again.
func (a *App) stir(ctx context.Context, id job.ID) {
	err := a.engine.Notify(ctx, id, blockAgent)
	if err == nil { // after that, so that no check that went before is missed
		err = a.engine.Nudge(ctx, id, blockSilent)
	}
	if kind := job.KindOf(err); err != nil && kind != job.Refused && kind != job.NotFound && ctx.Err() == nil {
		a.log.Warn("compute: news of a job could not be passed on; it is queried later", "job", id, "error", err)
	}
}

// revisit queries all jobs of an executor that did not answer for some time.
func (r *registry) revisit(ctx context.Context, name string) {
	open := false
	for q := (job.Query{Kinds: []job.Kind{JobKind}, States: atAgent, Tag: AgentTag(name), Ended: &open, Oldest: true,
		Limit: 1000}); ; {
		page, err := r.app.engine.Store().List(ctx, q)
		if err != nil {
			r.app.log.Warn("compute: the jobs of an agent could not be listed", "agent", name, "error", err)
			return
		}
		for i := range page.Jobs {
			r.app.stir(ctx, page.Jobs[i].ID)
		}
		if q.After = page.Next; q.After == "" {
			return
		}
	}
}

// AgentTag returns the tag of the jobs that an executor has.
func AgentTag(name string) string { return "agent=" + name }

// unbounded is the capacity of an executor that does not report how much it has.
const unbounded = 1 << 20

func (m *member) spare() int {
	if m.room.Slots == 0 {
		return unbounded
	}
	return m.room.Free - m.reserved
}

// serving gives the executors that suit jobs, serve their service and answer, the best first: by free slots, then by
// load. Those that were tried come last. The caller has the lock.
func (r *registry) serving(d demand, tried []string) []*member {
	var fit []*member
	for _, m := range r.members {
		serves := len(m.room.Services) == 0 || slices.Contains(m.room.Services, d.service)
		if r.suits(d, m.name) && m.err == nil && !r.drains(m) && serves {
			fit = append(fit, m)
		}
	}
	slices.SortFunc(fit, func(a, b *member) int {
		last := func(m *member) int { return btoi(slices.Contains(tried, m.name)) }
		known := func(m *member) int { return btoi(m.spare() == unbounded) }
		return cmp.Or(cmp.Compare(last(a), last(b)), cmp.Compare(known(a), known(b)), cmp.Compare(b.spare(), a.spare()),
			cmp.Compare(a.room.Load, b.room.Load), cmp.Compare(a.reserved, b.reserved), cmp.Compare(a.name, b.name))
	})
	return fit
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// choice is what became of the search for an executor.
type choice struct {
	member   *member // nil: none
	instance string  // of its memory, as it reported last
	// what a job in line waits for: that there is capacity, or that an operator or the start lets them take something
	waits  string
	soon   bool   // it is known in a moment
	lacks  string // a job waits for an agent of another kind, and loses no attempt: blockSmall, blockLabels
	reason string
}

// errUnasked is what is known of an executor before its first answer: nothing that would count against a job.
var errUnasked = errors.New("it was not asked yet")

// unasked reports that an executor that may get jobs was not asked yet, or may come yet; "" if not so. The caller has
// the lock.
func (r *registry) unasked(d demand) string {
	s := r.app.services[d.service]
	for name, m := range r.members {
		if m.err == errUnasked && r.suits(d, name) {
			return "the agents are being asked how they stand"
		}
	}
	if r.ctx == nil || time.Since(r.began) > r.app.gathering() {
		return ""
	}
	to := len(r.members) == 0 || len(r.expected) > 0
	if s != nil && len(s.Agents) > 0 {
		to = slices.ContainsFunc(s.Agents, func(name string) bool { return r.members[name] == nil && r.suits(d, name) })
	}
	if to {
		return "the server has just started, and agents that come by themselves have not come yet"
	}
	return ""
}

// gathering is for how long after the start an executor that comes by itself and has not come yet counts as one that
// was not asked yet.
func (a *App) gathering() time.Duration { return min(time.Minute, a.options.RetryFor) }

// Expect announces that an executor will come by itself. A job that no one else can have waits for it while the server
// is starting. Called before Bind.
func (a *App) Expect(name string) {
	a.registry.mu.Lock()
	defer a.registry.mu.Unlock()
	a.registry.expected[name] = true
}

// choose finds an executor for a job that may use so much, and reserves a slot of it.
func (r *registry) choose(j *job.Job, d demand, may Limits, tried []string) choice {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting.jobs, j.ID)
	if reason := r.unlabelled(d); reason != "" {
		if why := r.unasked(demand{service: d.service}); why != "" { // it may report the labels
			return choice{waits: blockStart, soon: true, reason: why}
		}
		return choice{lacks: blockLabels, reason: reason}
	}
	all := r.serving(d, tried)
	fit := slices.DeleteFunc(slices.Clone(all), func(m *member) bool { return tooSmall(m, may) })
	room := slices.DeleteFunc(slices.Clone(fit), func(m *member) bool { return !d.fits(m) })
	for _, m := range room {
		if m.spare() > 0 && m.reserved < r.app.mostCalls() {
			m.reserved++
			r.waiting.take(j.Owner)
			return choice{member: m, instance: m.room.Instance}
		}
	}
	if len(room) > 0 {
		return choice{waits: blockFull, reason: fmt.Sprintf("all slots of %s are taken", names(room))}
	}
	if why := r.unasked(d); why != "" {
		return choice{waits: blockStart, soon: true, reason: why}
	}
	if len(fit) > 0 {
		return choice{waits: blockSpace, reason: d.noSpace(fit)}
	}
	if len(all) > 0 {
		return choice{lacks: blockSmall, reason: smallest(all, may)}
	}
	if reason := r.allDrained(d); reason != "" {
		return choice{waits: blockDrain, reason: reason}
	}
	return choice{reason: r.absent(d)}
}

func names(members []*member) string {
	text := ""
	for i, m := range members {
		switch {
		case i == 3:
			return text + fmt.Sprintf(" and %d more", len(members)-3)
		case i > 0:
			text += ", "
		}
		text += m.name
	}
	return text
}

// absent reports why no executor can be had. The caller has the lock.
func (r *registry) absent(d demand) string {
	if len(r.members) == 0 {
		return "no agent is known to this server"
	}
	text := ""
	for _, name := range slices.Sorted(maps.Keys(r.members)) {
		m, why := r.members[name], ""
		switch {
		case !r.suits(d, name):
			continue
		case m.err != nil:
			why = "cannot be reached: " + plain(m.err)
		case r.drains(m):
			why = "takes nothing new (it drains)"
		default:
			why = "does not serve " + d.service
		}
		if len(text) > 400 {
			return text + "; and others"
		}
		if text != "" {
			text += "; "
		}
		text += name + " " + why
	}
	if text == "" {
		return "none of the agents" + d.with() + " that " + d.service + " names is known to this server"
	}
	return text
}

// settle gives a reservation back: taken reports whether the executor has the parcel now.
func (r *registry) settle(ctx context.Context, m *member, taken bool) {
	r.mu.Lock()
	crowd := m.reserved >= r.app.mostCalls()
	m.reserved--
	if taken && m.room.Slots > 0 {
		m.room.Free--
	}
	r.mu.Unlock()
	if !taken || crowd {
		r.call(ctx)
	}
}

// ticketless reports whether an executor has no tickets; some report it before their first answer, which a server that
// was just started does not have yet.
func (r *registry) ticketless(m *member) bool {
	if t, ok := m.executor.(Ticketed); ok {
		return t.Ticketless()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return m.room.Instance == Ticketless
}

// get gives the executor of a name, or nil, and whether it reports by itself what changes.
func (r *registry) get(name string) (m *member, live bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m = r.members[name]
	return m, m != nil && m.live
}
