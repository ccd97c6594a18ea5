// Package crash simulates a crash at every point of a workload and checks what is left. A [Store] passes calls
// through to another store until its [Fuse] blows, right before or right after the n-th call; from then on every call
// fails, as for a process that has crashed or lost its store. [Enumerate] runs a workload with the fuse at every
// call, on both sides, opens the store again, checks it against its records, lets the jobs go on, and checks again.
//
// What happens inside one call (a power cut between two writes of a file) is the business of the store that does it.
package crash
