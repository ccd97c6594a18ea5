// Package storetest is the contract of job.Store as tests. A store's own test file calls [Run] with a function that
// opens an empty store, and has no other tests of the contract.
//
// The package also holds what other tests of stores build on: [Path] and [Drive] bring jobs to a state by legal
// moves, [Transition] makes the change of one move, [Check] compares a whole store with its records, and [Histories]
// checks random histories of claims for linearizability.
package storetest
