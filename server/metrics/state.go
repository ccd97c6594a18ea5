package metrics

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Sources are asked how things stand whenever somebody reads the metrics. Engine is required.
type Sources struct {
	Engine   *engine.Engine
	Topics   []string                                        // of messages that are delivered
	Waiting  func() int                                      // operations that wait for the store's commit loop; nil leaves them out
	Watching func() int                                      // open event streams; nil leaves them out
	Backups  func() (last time.Time, every time.Duration)    // the newest backup's moment, and the time between scheduled ones; nil leaves them out
	Fixity   func(context.Context) (Fixity, error)           // what is known of stored files; nil leaves it out
	Agents   func() []Agent                                  // who runs compute jobs; nil leaves them out
	Disks    func() map[string]string                        // directories by the name of what lies there
	Space    func(dir string) (free, total int64, err error) // defaults to asking the file system
}

// Bind joins the metrics to what they ask. It is called once, before anybody reads them.
func (m *Metrics) Bind(s Sources) {
	if s.Disks == nil {
		s.Disks = func() map[string]string { return nil }
	}
	if s.Space == nil {
		s.Space = diskSpace
	}
	m.attempts.begin(&s)
	m.state.sources.Store(&s)
}

// patience is how long the sources may take for one reading.
const patience = 10 * time.Second

// state collects how things stand.
type state struct {
	sources atomic.Pointer[Sources]
	groups  chosen
	log     *slog.Logger

	jobs, claimed, bytes, oldest *prometheus.Desc
	holds, slots, used           *prometheus.Desc
	stalled, frozen              *prometheus.Desc
	backup, interval             *prometheus.Desc
	fixity                       fixity
	waiting, watching            *prometheus.Desc
	pending, due, age            *prometheus.Desc
	free, size                   *prometheus.Desc
	agents                       agents
	errors                       *prometheus.CounterVec
}

func newState(o Options) *state {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
	}
	return &state{
		groups: chosen{most: o.Groups}, log: o.Log, agents: newAgents(o, desc), fixity: newFixity(desc),
		jobs: desc("jobs", "Jobs by kind, state, the kind of stage that the state is (queue, work, wait, end) and group; groups beyond a number are \"other\".",
			"kind", "state", "stage", "group"),
		claimed:  desc("jobs_claimed", "Of the jobs, those that a worker holds.", "kind", "state", "stage", "group"),
		bytes:    desc("work_bytes", "Size of the work of the jobs, as far as it is known.", "kind", "state", "stage", "group"),
		oldest:   desc("oldest_job_seconds", "How long the job that was created first of those in the state has been in it; ends are left out.", "kind", "state"),
		holds:    desc("holds", "Holds in force."),
		slots:    desc("slots", "Steps that may run at once."),
		used:     desc("slots_used", "Steps that run."),
		stalled:  desc("sweep_stalled_seconds", "How long the engine's sweep has got nothing done."),
		frozen:   desc("retention_frozen", "1 while nothing is removed by its age because the clock is in doubt."),
		backup:   desc("backup_last_timestamp_seconds", "Moment whose state the newest backup has, as a Unix time; 0: there is none."),
		interval: desc("backup_interval_seconds", "Time between scheduled backups; 0: none are made."),
		waiting:  desc("commit_queue", "Operations that wait for the store's commit loop."),
		watching: desc("event_streams", "Open event streams."),
		pending:  desc("outbox_pending", "Messages that were neither delivered nor given up, counted up to 10000."),
		due:      desc("outbox_due", "Of the pending messages, those that are due."),
		age:      desc("outbox_oldest_seconds", "Age of the oldest pending message among those counted."),
		free:     desc("disk_free_bytes", "Free room on the file system of a place.", "place"),
		size:     desc("disk_size_bytes", "Size of the file system of a place.", "place"),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "scrape_errors_total", Help: "Readings of these metrics in which a source did not answer, by source.",
		}, []string{"source"}),
	}
}

// Describe is part of prometheus.Collector.
func (s *state) Describe(c chan<- *prometheus.Desc) {
	for _, d := range append([]*prometheus.Desc{
		s.jobs, s.claimed, s.bytes, s.oldest, s.holds, s.slots, s.used, s.stalled, s.frozen, s.backup, s.interval, s.waiting, s.watching, s.pending, s.due, s.age, s.free, s.size,
	}, append(s.agents.all(), s.fixity.all()...)...) {
		c <- d
	}
	s.errors.Describe(c)
}

// Collect is part of prometheus.Collector. What a source does not tell in time is left out and counted as an error; the rest is there.
func (s *state) Collect(c chan<- prometheus.Metric) {
	from := s.sources.Load()
	if from == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	put := func(d *prometheus.Desc, v float64, labels ...string) {
		c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for name, collect := range map[string]func(context.Context, *Sources, putter) error{
		"jobs": s.collectJobs, "holds": s.collectHolds, "outbox": s.collectOutbox, "disks": s.collectDisks, "agents": s.collectAgents, "fixity": s.collectFixity,
	} {
		s.errors.WithLabelValues(name) // a counter that is there before anything is wrong
		if err := collect(ctx, from, put); err != nil {
			s.errors.WithLabelValues(name).Inc()
			s.log.Warn("metrics", "source", name, "error", err)
		}
	}
	used, slots := from.Engine.Slots()
	put(s.slots, float64(slots))
	put(s.used, float64(used))
	put(s.stalled, from.Engine.Stalled().Seconds())
	put(s.frozen, map[bool]float64{true: 1}[from.Engine.Frozen()])
	if from.Backups != nil {
		last, every := from.Backups()
		put(s.backup, max(0, float64(last.UnixMilli())/1000))
		put(s.interval, every.Seconds())
	}
	if from.Waiting != nil {
		put(s.waiting, float64(from.Waiting()))
	}
	if from.Watching != nil {
		put(s.watching, float64(from.Watching()))
	}
	s.errors.Collect(c)
}

// putter gives one value to the reader.
type putter func(d *prometheus.Desc, v float64, labels ...string)

// standing is what jobs are told apart by.
type standing struct{ kind, state, stage, group string }

func (s *state) collectJobs(ctx context.Context, from *Sources, put putter) error {
	tallies, err := from.Engine.Store().Count(ctx)
	if err != nil {
		return err
	}
	stage := func(t *job.Tally) lifecycle.Kind {
		if life := from.Engine.Life(t.Kind); life != nil {
			st, _ := life.Stage(t.State)
			return st.Kind
		}
		return ""
	}
	open := map[string]int64{}
	for i := range tallies {
		n := tallies[i].Jobs
		if stage(&tallies[i]) == lifecycle.End {
			n = 0
		}
		open[valid(tallies[i].Group)] += n
	}
	groups := s.groups.choose(open)
	sums := map[standing]job.Tally{}
	places := map[job.KindState]bool{}
	for i := range tallies {
		t := &tallies[i]
		at := standing{string(t.Kind), string(t.State), string(stage(t)), valid(t.Group)}
		if !groups[at.group] {
			at.group = other
		}
		sum := sums[at]
		sum.Jobs, sum.Claimed, sum.Bytes = sum.Jobs+t.Jobs, sum.Claimed+t.Claimed, sum.Bytes+t.Bytes
		sums[at] = sum
		if t.Jobs > 0 && at.stage != string(lifecycle.End) {
			places[job.KindState{Kind: t.Kind, State: t.State}] = true
		}
	}
	for at, sum := range sums {
		put(s.jobs, float64(sum.Jobs), at.kind, at.state, at.stage, at.group)
		put(s.claimed, float64(sum.Claimed), at.kind, at.state, at.stage, at.group)
		put(s.bytes, float64(sum.Bytes), at.kind, at.state, at.stage, at.group)
	}
	return s.collectOldest(ctx, from, slices.Collect(maps.Keys(places)), put)
}

// collectOldest asks for the job that was created first in each state.
func (s *state) collectOldest(ctx context.Context, from *Sources, places []job.KindState, put putter) error {
	now := from.Engine.Clock().Now()
	for _, p := range places {
		page, err := from.Engine.Store().List(ctx, job.Query{Kinds: []job.Kind{p.Kind}, States: []lifecycle.State{p.State}, Oldest: true, Limit: 1})
		if err != nil {
			return err
		}
		if len(page.Jobs) > 0 {
			put(s.oldest, max(now.Sub(page.Jobs[0].Entered), 0).Seconds(), string(p.Kind), string(p.State))
		}
	}
	return nil
}

func (s *state) collectHolds(ctx context.Context, from *Sources, put putter) error {
	holds, err := from.Engine.Store().Hold(ctx, nil)
	if err != nil {
		return err
	}
	now := from.Engine.Clock().Now()
	put(s.holds, float64(len(slices.DeleteFunc(holds, func(h job.Hold) bool { return !h.On(now) }))))
	return nil
}

// mostPending bounds the messages that one reading looks at.
const mostPending = 10_000

// unsettled lists messages that wait, the newest first.
func unsettled(ctx context.Context, store job.Store) (all []job.Message, err error) {
	waits := job.Pending
	q := job.MessageQuery{Settled: &waits, Limit: 1000}
	for len(all) < mostPending {
		page, err := store.Outbox(ctx, job.OutboxCall{List: &q})
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < q.Limit {
			break
		}
		q.Before = page[len(page)-1].Number
	}
	return all, nil
}

func (s *state) collectOutbox(ctx context.Context, from *Sources, put putter) error {
	messages, err := unsettled(ctx, from.Engine.Store())
	if err != nil {
		return err
	}
	now := from.Engine.Clock().Now()
	due, oldest := 0, time.Duration(0)
	for i := range messages {
		if !messages[i].Due.After(now) {
			due++
		}
		oldest = max(oldest, now.Sub(messages[i].Created))
	}
	put(s.pending, float64(len(messages)))
	put(s.due, float64(due))
	put(s.age, oldest.Seconds())
	return nil
}

func (s *state) collectDisks(_ context.Context, from *Sources, put putter) error {
	for place, dir := range from.Disks() {
		free, size, err := from.Space(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a place that nothing was stored in yet
		}
		if err != nil {
			return err
		}
		put(s.free, float64(free), valid(place))
		put(s.size, float64(size), valid(place))
	}
	return nil
}
