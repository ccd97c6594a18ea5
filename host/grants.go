package host

import (
	"context"
	"time"

	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/server/grants"
)

// grantsName is the file of what the audit log has of tokens, users and enrolment tokens.
const grantsName = "grants-seen"

// grantsEvery is the time between checks whether a file that gives access has changed.
const grantsEvery = time.Second

// enterGrants enters changes of tokens, users and enrolment tokens in the audit log, until ctx ends.
func (r *Server) enterGrants(ctx context.Context) {
	tick := time.NewTicker(grantsEvery)
	defer tick.Stop()
	entered, begun := "", false
	for {
		if stamp, now := r.grants.Stamp(), time.Now(); !begun || stamp != entered {
			err := r.grants.Enter(now, func(c grants.Change) error {
				return r.Engine.Operator().Audit(ctx, operator.Entry{Actor: c.Actor, Event: c.Event, Object: c.Object,
					Note: c.Note})
			})
			switch {
			case err != nil && ctx.Err() == nil:
				r.Log.Warn("changes of tokens and users are not in the audit log yet", "error", err)
			case err == nil && r.grants.Steady(now):
				entered, begun = stamp, true
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// usesEvery is the shortest time between two writes of the last uses of tokens.
const usesEvery = time.Minute

// flushUses writes the last uses of tokens once a minute at most, and when ctx ends.
func (r *Server) flushUses(ctx context.Context) {
	tick := time.NewTicker(usesEvery)
	defer tick.Stop()
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			ended = true
		case <-tick.C:
		}
		if err := r.tokens.FlushUses(); err != nil {
			r.Log.Warn("the last uses of tokens cannot be written", "error", err)
		}
	}
}
