// Package metrics counts what a server does, in the form that Prometheus reads.
//
// What happens is counted where it happens: in the engine ([meter.Meter]), the store's commit loop, the applications
// and the answers of the API. The present state (jobs by state, outbox, holds, slots, disks) is read when the metrics
// are read, so that no figure is older than its reading. Nothing is registered globally.
//
// Labels are bounded: kinds, states, endings, routes come from tables; groups and causes, which people choose, are as
// many as Options allow and the rest are "other".
package metrics
