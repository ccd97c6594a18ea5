// Package job has the types that engine, stores, client and applications share: the job record, its history, tasks,
// holds and outbox messages, the error type, and the contract of a [Store].
//
// The record is authoritative. Everything else in a store (the queue, counts, lists) is derived from records in the
// same commit and can be rebuilt from them. [Apply] computes the record after a [Change]. Every store calls it, so
// the rules of claims, epochs and versions have one implementation.
//
// The package uses the standard library and package lifecycle only.
package job

import "embed"

// Source is the source of this package. Its comments are texts of the API's description, as are those of package api.
//
//go:embed *.go
var Source embed.FS
