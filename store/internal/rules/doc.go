// Package rules has what each operation of a [job.Store] means: which records it reads, what it checks, and what it
// writes. It reads and writes nothing itself, has no locks, no clock and no queue. Every store uses it; the
// stores differ in how they read and write.
//
// An operation has four parts:
//
//   - A method of [Needs] states which records the operation reads. They follow from its arguments. A commit needs a
//     second round ([Needs.Second]), because the parent of a job stands in the record of the job.
//   - The store reads all of them at once, in its transaction and with locks if other processes write too, and adds
//     them to a [Known]. Records are locked children before parents, each in order of their ids.
//   - The rules ([Create], [Commit], [Claim], [Renew], [PutHold], [Release], [Note], [Take], [Settle], [Replay])
//     compute what the operation writes from what is known, from what earlier operations of the transaction write, and
//     from the arguments. They add it to a [Writes]. A refused operation adds nothing, and nothing that is known is
//     changed.
//   - The store decides which requested claims ([JobWrite.Chain]) are granted, by its queue or by its own queries, and
//     then writes everything at once.
//
// Which jobs a claim grants is no rule of this package: it is decided by package scheduler or by the queries of the
// store. [Claim] computes the records after that.
package rules
