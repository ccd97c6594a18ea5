package metrics

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/edge/disk"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Sources are read when the metrics are read. Engine is required.
type Sources struct {
	Engine *engine.Engine
	Topics []string // of messages that are delivered
	// operations that wait for the store's commit loop; nil leaves them out
	Waiting  func() int
	Watching func() int // open event streams; nil leaves them out
	// the workers that are known; nil leaves them out
	Workers func(ctx context.Context) ([]api.WorkerInfo, error)
	// the newest backup's moment, and the time between scheduled ones; nil leaves them out
	Backups func() (last time.Time, every time.Duration)
	// the newest time stamp of the histories, and the time between them; nil leaves them out
	Anchors func() (last time.Time, every time.Duration)
	// until when the checkpoints have all histories, and the rounds that failed; nil leaves them out
	Checkpoints func() Checkpoints
	More        []Source                                        // of applications
	Disks       func() map[string]string                        // directories by the name of what lies there
	Space       func(dir string) (free, total int64, err error) // defaults to asking the file system
}

// Checkpoints is how the signing of checkpoints of the histories goes on.
type Checkpoints struct {
	Leads    bool      // this server signs; otherwise only the failures count
	Covered  time.Time // a checkpoint has all that was committed until then; zero: there is none
	Every    time.Duration
	Failures int64
}

// Source has gauges of an application. Collect is called when the metrics are read.
type Source struct {
	Name    string // the label of scrape_errors_total
	Gauges  []*prometheus.Desc
	Collect func(ctx context.Context, put Putter) error
}

// NewGauge describes the gauge stagepost_NAME.
func NewGauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
}

// Bind connects the metrics to their sources. It is called once, before they are read.
func (m *Metrics) Bind(s Sources) {
	if s.Disks == nil {
		s.Disks = func() map[string]string { return nil }
	}
	if s.Space == nil {
		s.Space = disk.Space
	}
	m.attempts.reset(&s)
	m.state.sources.Store(&s)
	m.registry.MustRegister(m.state)
}

// patience is how long the sources may take for one reading.
const patience = 10 * time.Second

// state collects the present state of the sources.
type state struct {
	sources atomic.Pointer[Sources]
	groups  Largest
	log     *slog.Logger

	jobs, claimed, bytes, oldest *prometheus.Desc
	holds, slots, used           *prometheus.Desc
	stalled, frozen              *prometheus.Desc
	backup, interval             *prometheus.Desc
	anchored, anchors            *prometheus.Desc
	signed, signs, unsigned      *prometheus.Desc // checkpoints
	waiting, watching            *prometheus.Desc
	workers, silent              *prometheus.Desc
	pending, due, age            *prometheus.Desc
	free, size                   *prometheus.Desc
	errors                       *prometheus.CounterVec
}

func newState(o Options) *state {
	return &state{
		groups: Largest{most: o.Groups}, log: o.Log,
		jobs: NewGauge("jobs", "Jobs by kind, state, the kind of stage that the state is (queue, work, "+
			"wait, end) and group; groups beyond a number are \"Other\".",
			"kind", "state", "stage", "group"),
		claimed: NewGauge("jobs_claimed", "Of the jobs, those that a worker holds.", "kind", "state", "stage",
			"group"),
		bytes: NewGauge("work_bytes", "Size of the work of the jobs, as far as it is known.", "kind", "state",
			"stage", "group"),
		oldest: NewGauge("oldest_job_seconds",
			"How long the job that was created first of those in the state has been in it; ends are left out.",
			"kind", "state"),
		holds:   NewGauge("holds", "Holds in force."),
		slots:   NewGauge("slots", "Steps that may run at once."),
		used:    NewGauge("slots_used", "Steps that run."),
		stalled: NewGauge("sweep_stalled_seconds", "How long the engine's sweep has got nothing done."),
		frozen:  NewGauge("retention_frozen", "1 while nothing is removed by its age because the clock is in doubt."),
		backup: NewGauge("backup_last_timestamp_seconds",
			"Moment whose state the newest backup has, as a Unix time; 0: there is none."),
		interval: NewGauge("backup_interval_seconds", "Time between scheduled backups; 0: none are made."),
		anchored: NewGauge("anchor_last_timestamp_seconds",
			"Moment of the newest time stamp of the histories, as a Unix time; 0: there is none."),
		anchors: NewGauge("anchor_interval_seconds",
			"Time between time stamps of the histories; 0: there is no time-stamp authority."),
		signed: NewGauge("checkpoint_last_timestamp_seconds", "Until when a signed checkpoint has all entries of "+
			"histories, as a Unix time; 0: there is none. Of the server that leads."),
		signs:    NewGauge("checkpoint_interval_seconds", "Time between checkpoints. Of the server that leads."),
		unsigned: NewGauge("checkpoint_failures_total", "Checkpoints of the histories that could not be signed."),
		waiting:  NewGauge("commit_queue", "Operations that wait for the store's commit loop."),
		watching: NewGauge("event_streams", "Open event streams."),
		workers: NewGauge("workers", "Workers that are known to the server, by where they work (server, api, agent) "+
			"and "+
			"state (idle, busy, draining, silent).", "where", "state"),
		silent:  NewGauge("silent_worker_jobs", "Jobs that silent workers have claimed."),
		pending: NewGauge("outbox_pending", "Messages that are neither delivered nor abandoned, counted up to 10000."),
		due:     NewGauge("outbox_due", "Of the pending messages, those that are due."),
		age:     NewGauge("outbox_oldest_seconds", "Age of the oldest pending message among those counted."),
		free:    NewGauge("disk_free_bytes", "Free space of the file system of a directory.", "place"),
		size:    NewGauge("disk_size_bytes", "Size of the file system of a directory.", "place"),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "scrape_errors_total",
			Help: "Readings of these metrics in which a source did not answer, by source.",
		}, []string{"source"}),
	}
}

// Describe is part of prometheus.Collector.
func (s *state) Describe(c chan<- *prometheus.Desc) {
	all := []*prometheus.Desc{
		s.jobs, s.claimed, s.bytes, s.oldest, s.holds, s.slots, s.used, s.stalled, s.frozen, s.backup, s.interval,
		s.anchored, s.anchors, s.signed, s.signs, s.unsigned, s.waiting, s.watching, s.workers, s.silent, s.pending,
		s.due, s.age, s.free, s.size,
	}
	for _, source := range s.sources.Load().More {
		all = append(all, source.Gauges...)
	}
	for _, d := range all {
		c <- d
	}
	s.errors.Describe(c)
}

// Collect is part of prometheus.Collector. Values of a source that does not answer in time are left out and counted as
// an error.
func (s *state) Collect(c chan<- prometheus.Metric) {
	from := s.sources.Load()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	put := func(d *prometheus.Desc, v float64, labels ...string) {
		c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	own := func(collect func(context.Context, *Sources, Putter) error) func(context.Context, Putter) error {
		return func(ctx context.Context, put Putter) error { return collect(ctx, from, put) }
	}
	for _, source := range append([]Source{
		{Name: "jobs", Collect: own(s.collectJobs)}, {Name: "holds", Collect: own(s.collectHolds)},
		{Name: "outbox", Collect: own(s.collectOutbox)}, {Name: "disks", Collect: own(s.collectDisks)},
		{Name: "workers", Collect: own(s.collectWorkers)},
	}, from.More...) {
		s.errors.WithLabelValues(source.Name) // a counter exists before the first error
		if err := source.Collect(ctx, put); err != nil {
			s.errors.WithLabelValues(source.Name).Inc()
			s.log.Warn("metrics", "source", source.Name, "error", err)
		}
	}
	now := from.Engine.Status()
	put(s.slots, float64(now.Slots))
	put(s.used, float64(now.Running))
	put(s.stalled, now.Stalled.Seconds())
	put(s.frozen, map[bool]float64{true: 1}[from.Engine.Clock().State().Doubt != ""])
	if from.Backups != nil {
		last, every := from.Backups()
		put(s.backup, max(0, float64(last.UnixMilli())/1000))
		put(s.interval, every.Seconds())
	}
	if from.Anchors != nil {
		last, every := from.Anchors()
		put(s.anchored, max(0, float64(last.UnixMilli())/1000))
		put(s.anchors, every.Seconds())
	}
	if from.Checkpoints != nil {
		k := from.Checkpoints()
		if k.Leads {
			put(s.signed, max(0, float64(k.Covered.UnixMilli())/1000))
			put(s.signs, k.Every.Seconds())
		}
		c <- prometheus.MustNewConstMetric(s.unsigned, prometheus.CounterValue, float64(k.Failures))
	}
	if from.Waiting != nil {
		put(s.waiting, float64(from.Waiting()))
	}
	if from.Watching != nil {
		put(s.watching, float64(from.Watching()))
	}
	s.errors.Collect(c)
}

// collectWorkers counts the workers, and the jobs of those that are silent.
func (s *state) collectWorkers(ctx context.Context, from *Sources, put Putter) error {
	if from.Workers == nil {
		return nil
	}
	all, err := from.Workers(ctx)
	if err != nil {
		return err
	}
	n, jobs := map[[2]string]int{}, 0
	for i := range all {
		n[[2]string{all[i].Where, all[i].State}]++
		if all[i].State == api.WorkerSilent {
			jobs += len(all[i].Running)
		}
	}
	for at, count := range n {
		put(s.workers, float64(count), at[0], at[1])
	}
	put(s.silent, float64(jobs))
	return nil
}

// Putter passes one value to the reader.
type Putter func(d *prometheus.Desc, v float64, labels ...string)

// standing is by what jobs are distinguished.
type standing struct{ kind, state, stage, group string }

func (s *state) collectJobs(ctx context.Context, from *Sources, put Putter) error {
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
		open[Valid(tallies[i].Group)] += n
	}
	groups := s.groups.Choose(open)
	sums := map[standing]job.Tally{}
	places := map[job.KindState]bool{}
	for i := range tallies {
		t := &tallies[i]
		at := standing{string(t.Kind), string(t.State), string(stage(t)), Valid(t.Group)}
		if !groups[at.group] {
			at.group = Other
		}
		sum := sums[at]
		sum.Jobs, sum.Claimed = sum.Jobs+t.Jobs, sum.Claimed+t.Claimed
		sum.Bytes += min(t.Bytes, math.MaxInt64-sum.Bytes)
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
func (s *state) collectOldest(ctx context.Context, from *Sources, places []job.KindState, put Putter) error {
	now := from.Engine.Clock().Now()
	for _, p := range places {
		page, err := from.Engine.Store().List(ctx,
			job.Query{Kinds: []job.Kind{p.Kind}, States: []lifecycle.State{p.State}, Oldest: true, Limit: 1})
		if err != nil {
			return err
		}
		if len(page.Jobs) > 0 {
			put(s.oldest, max(now.Sub(page.Jobs[0].Entered), 0).Seconds(), string(p.Kind), string(p.State))
		}
	}
	return nil
}

func (s *state) collectHolds(ctx context.Context, from *Sources, put Putter) error {
	holds, err := from.Engine.Store().Holds(ctx)
	if err != nil {
		return err
	}
	now := from.Engine.Clock().Now()
	put(s.holds, float64(len(slices.DeleteFunc(holds, func(h job.Hold) bool { return !h.On(now) }))))
	return nil
}

// mostPending bounds the messages of one reading.
const mostPending = 10_000

// unsettled lists messages that wait, the newest first.
func unsettled(ctx context.Context, store job.Store) (all []job.Message, err error) {
	waits := job.Pending
	q := job.MessageQuery{Settled: &waits, Limit: 1000}
	for len(all) < mostPending {
		page, err := store.Messages(ctx, q)
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

func (s *state) collectOutbox(ctx context.Context, from *Sources, put Putter) error {
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

func (s *state) collectDisks(_ context.Context, from *Sources, put Putter) error {
	for place, dir := range from.Disks() {
		free, size, err := from.Space(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a directory that does not exist yet
		}
		if err != nil {
			return err
		}
		put(s.free, float64(free), Valid(place))
		put(s.size, float64(size), Valid(place))
	}
	return nil
}
