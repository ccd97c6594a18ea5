package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagepost/stagepost/engine/meter"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var _ meter.Meter = (*Metrics)(nil)

// meters counts what the engine reports. The counters of one kind, state and ending are looked up once and kept
// together: finding them by their labels costs more than counting.
type meters struct {
	attempts *prometheus.CounterVec
	took     *prometheus.HistogramVec
	backoffs *prometheus.CounterVec
	failures *prometheus.CounterVec
	claims   *prometheus.CounterVec
	waited   *prometheus.HistogramVec
	lost     *prometheus.CounterVec
	sent     *prometheus.CounterVec
	lag      *prometheus.HistogramVec
	sending  *prometheus.HistogramVec
	causes   *Values

	ends    table[end, ended]
	granted table[kindState, grants]
}

// kindState is a state of a kind.
type kindState struct {
	kind  job.Kind
	state lifecycle.State
}

// end is one way in which attempts at a state end.
type end struct {
	kindState
	ending meter.Ending
}

type ended struct {
	count prometheus.Counter
	took  prometheus.Observer
}

type grants struct {
	queue, chain prometheus.Counter
	waited       prometheus.Observer
}

func newMeters(r *prometheus.Registry, causes int) meters {
	return meters{
		causes: newValues(causes),
		attempts: counter(r, "attempts_total",
			"Attempts at states by how they ended: passed, waited, backed-up, failed, timed-out, yielded, poisoned.",
			"kind", "state", "ending"),
		took: histogram(r, "stage_duration_seconds",
			"Time that one attempt at a state took in this process, by how it ended.",
			[]float64{.001, .005, .025, .1, .5, 2, 10, 60, 300, 1800, 7200, 28800}, "kind", "state", "ending"),
		backoffs: counter(r, "backoffs_total", "Attempts that failed and are tried again after a pause, by cause.",
			"kind", "state", "cause"),
		failures: counter(r, "failures_total",
			"Jobs that took a failure exit, by the state they were in and the cause.", "kind", "state", "cause"),
		claims: counter(r, "claims_total",
			"Claims granted, by way: from the queue, or as a chain in the commit that ended the state before.",
			"kind", "state", "way"),
		waited: histogram(r, "queue_wait_seconds",
			"Time from entering a state to its first claim from the queue, of jobs that waited for nothing else.",
			[]float64{.005, .025, .1, .5, 2, 10, 60, 300, 1800, 7200, 28800, 86400}, "kind", "state"),
		lost: counter(r, "claims_lost_total",
			"Claims that ended without a report: the lease expired, or the job was moved away from its worker.", "kind",
			"state", "how"),
		sent: counter(r, "outbox_deliveries_total",
			"Attempts to deliver mails and callbacks, by result: delivered, again, abandoned.", "topic", "result"),
		lag: histogram(r, "outbox_lag_seconds", "Time from the commit that wrote a message to its delivery.",
			[]float64{.05, .25, 1, 5, 30, 120, 600, 3600, 21600, 86400}, "topic"),
		sending: histogram(r, "outbox_delivery_duration_seconds", "Time that one attempt to deliver took.",
			[]float64{.005, .025, .1, .5, 2, 10, 60}, "topic"),
	}
}

// reset sets the counters that alarms use to 0, for all values of their labels that are known: an increase from a
// counter that is not there yet is none. The causes of failures are not known beforehand; their alarm counts a series
// that is new.
func (m *meters) reset(s *Sources) {
	for _, k := range s.Engine.Kinds() {
		for _, stage := range s.Engine.Life(k).Stages() {
			kind, state := string(k), string(stage.State)
			if stage.Kind == lifecycle.End {
				continue
			}
			for _, e := range meter.Endings() {
				m.attempts.WithLabelValues(kind, state, string(e))
			}
			m.lost.WithLabelValues(kind, state, lostSilent)
			m.lost.WithLabelValues(kind, state, lostTaken)
		}
	}
	for _, topic := range s.Topics {
		for _, result := range []string{string(job.Delivered), sentAgain, string(job.Abandoned)} {
			m.sent.WithLabelValues(Valid(topic), result)
		}
	}
}

// Values of labels.
const (
	lostSilent = "silent" // the lease ended
	lostTaken  = "taken"
	sentAgain  = "again"
)

// Claimed is part of meter.Meter.
func (m *Metrics) Claimed(c meter.Claimed) {
	g := m.attempts.granted.of(kindState{c.Kind, c.State}, m.attempts.grants)
	if c.Chain {
		g.chain.Inc()
		return
	}
	g.queue.Inc()
	if c.First {
		g.waited.Observe(c.Waited.Seconds())
	}
}

func (m *meters) grants(p kindState) grants {
	kind, state := string(p.kind), string(p.state)
	return grants{m.claims.WithLabelValues(kind, state, "queue"), m.claims.WithLabelValues(kind, state, "chain"),
		m.waited.WithLabelValues(kind, state)}
}

// Attempted is part of meter.Meter.
func (m *Metrics) Attempted(a meter.Attempt) {
	e := m.attempts.ends.of(end{kindState{a.Kind, a.State}, a.Ending}, m.attempts.ended)
	e.count.Inc()
	if a.Took > 0 {
		e.took.Observe(a.Took.Seconds())
	}
	switch a.Ending {
	case meter.BackedUp:
		m.attempts.backoffs.WithLabelValues(string(a.Kind), string(a.State), m.attempts.causes.Bound(a.Cause)).Inc()
	case meter.FailedBy, meter.TimedOut, meter.Poisoned:
		m.attempts.failures.WithLabelValues(string(a.Kind), string(a.State), m.attempts.causes.Bound(a.Cause)).Inc()
	}
}

func (m *meters) ended(e end) ended {
	kind, state, ending := string(e.kind), string(e.state), string(e.ending)
	return ended{m.attempts.WithLabelValues(kind, state, ending), m.took.WithLabelValues(kind, state, ending)}
}

// Lost is part of meter.Meter.
func (m *Metrics) Lost(l meter.Lost) {
	how := lostTaken
	if l.Silent {
		how = lostSilent
	}
	m.attempts.lost.WithLabelValues(string(l.Kind), string(l.State), how).Inc()
}

// Delivered is part of meter.Meter.
func (m *Metrics) Delivered(d meter.Delivery) {
	topic, result := Valid(d.Topic), string(d.Settled)
	switch d.Settled {
	case job.Pending:
		result = sentAgain
	case job.Delivered:
		m.attempts.lag.WithLabelValues(topic).Observe(d.Lag.Seconds())
	}
	m.attempts.sent.WithLabelValues(topic, result).Inc()
	m.attempts.sending.WithLabelValues(topic).Observe(d.Took.Seconds())
}
