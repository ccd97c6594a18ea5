package engine

// Some work is done for all jobs of a store, whichever engine has them: the sweep of expired leases and timeouts, the
// parking of held jobs, retention and purges; of applications schedules, fixity checks and the renewal of time stamps.
// One engine does it, the leader. Each of its commits compares the version of the record that it read, so that two
// engines which both lead for a moment, or one that stops in the middle of a round, waste work and harm nothing. What
// concerns the jobs of one engine (claims, renewals, due times, deliveries) is done by each engine, and so is the
// removal of files: another server may have other ones.

// Leads reports whether this engine is the leader now. Background work of an application that one server of a shared
// store does for all calls it before each round, and again after at most a minute if it is not the leader. A store that
// one process owns has no other engine: its engine always leads. Quick; it may be called concurrently.
func (e *Engine) Leads() bool {
	return e.options.Leads == nil || e.store.Properties().Exclusive || e.options.Leads()
}
