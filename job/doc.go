// Package job holds the words that engine, stores, client and applications share: the job record, its history, tasks,
// holds and outbox messages, the error type, and the contract of a [Store].
//
// The record is the only truth. Everything else a store keeps (the queue, counts, lists) is derived from records in the
// same commit and can be rebuilt from them. [Apply] computes what one [Change] makes of a record; every store calls it, so
// that the rules of claims, epochs and versions are written once.
//
// The package uses the standard library and package lifecycle only.
package job
