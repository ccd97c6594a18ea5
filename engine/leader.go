package engine

// Some work is done for all jobs of a store, whichever engine has them: the sweep of expired leases and timeouts, the
// parking of held jobs, retention and purges. One engine does it, the leader. Each of its commits compares the version
// of the record that it read, so that two engines which both lead for a moment, or one that stops in the middle of a
// round, waste work and harm nothing. What concerns the jobs of one engine (claims, renewals, due times, deliveries) is
// done by each engine.

// leads reports whether this engine is the leader now. It is asked before each round. A store that one process owns has
// no other engine to ask: its engine always leads.
func (e *Engine) leads() bool {
	return e.options.Leads == nil || e.store.Properties().Exclusive || e.options.Leads()
}
