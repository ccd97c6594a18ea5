// Package metrics counts what a server does, in the form that Prometheus reads.
//
// What happens is told by those to whom it happens: the engine ([meter.Meter]), the store's commit loop, the applications' bytes, the answers
// of the API. How things stand (jobs by state, outbox, holds, slots, disks) is asked of them when somebody reads the metrics, so that a figure
// is never older than its reader. Nothing is registered globally.
//
// Labels are bounded: kinds, states, endings, routes come from tables; groups and causes, which people choose, are as many as Options say and
// the rest are "other".
package metrics
