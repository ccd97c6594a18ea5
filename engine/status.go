package engine

import (
	"maps"
	"slices"
	"time"

	"github.com/stagepost/stagepost/engine/status"
	"github.com/stagepost/stagepost/job"
)

// Status returns the state of the engine that is not part of any record.
func (e *Engine) Status() *status.Engine {
	s := &status.Engine{Worker: e.name, Labels: e.options.Labels, Checked: e.options.Impaired != nil}
	if s.Checked {
		s.Impairment = e.options.Impaired()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s.Open, s.Running, s.Alone = e.open.Load(), len(e.running), e.suspects.alone
	s.Shared = e.poolStatus(e.shared)
	s.Slots = s.Shared.Slots
	for kind, p := range e.kindsNow().own {
		if s.Own == nil {
			s.Own = map[job.Kind]status.Pool{}
		}
		s.Own[kind] = e.poolStatus(p)
		s.Slots += p.total
	}
	if s.Alone == claiming {
		s.Alone = ""
	}
	s.Draining = s.Alone == "" && e.suspects.closed()
	if last := e.headway.Load(); last != 0 {
		s.Stalled = max(time.Duration(e.clock.Now().UnixNano()-last), 0)
	}
	return s
}

// poolStatus describes a pool. The caller holds mu.
func (e *Engine) poolStatus(p *pool) status.Pool {
	return status.Pool{Slots: p.total, Busy: p.busy, Next: job.Claim{
		Worker: e.name, From: p.states, Labels: e.options.Labels, Now: e.clock.Now(), Limits: e.kindsNow().limits,
		Ageing: e.options.Ageing,
	}}
}

// Running lists the jobs whose steps run in this engine, sorted.
func (e *Engine) Running() []job.ID {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(maps.Keys(e.running))
}
