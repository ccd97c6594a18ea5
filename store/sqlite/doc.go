// Package sqlite keeps jobs in one SQLite file. It is the default store: one process, one directory, nothing to install.
//
// # What is the truth
//
// The tables of stagepost.db. Everything in memory (queue, counts, the lines that lists filter by, the cache of records) is
// derived from them at the start and follows every commit. [Store.Fsck] compares the two and what the tables say twice.
//
// What is gone by a purge is gone from all tables but the audit list; table `given` keeps the numbers that it had from being given again.
// It also has the times of [job.KeptClock].
//
// # How a commit goes
//
//	callers -> inbox -> loop: BEGIN, every operation through the ledger, COMMIT (one sync, the head's beside it) -> memory -> answers -> hints
//
// One goroutine writes. It takes what waits, up to 4,096 operations, so the cost of a sync is shared and the rate grows with
// the number of callers. Reads have connections of their own and see what is synced, never more.
//
// # What happens on failure
//
//   - An operation that the ledger refuses has written nothing and fails alone.
//   - A statement fails: the transaction is rolled back, memory is loaded anew, and each operation is tried in a transaction of
//     its own, so that only the guilty one fails.
//   - The disk is full: operations fail with kind Unavailable; the store goes on when there is room.
//   - The disk fails in a COMMIT, or the file is damaged: the store is dead. A sync is never tried again, because after a failed
//     one nobody knows what the disk holds. Every call answers Unavailable, and the process is told to end ([Options.OnDeath]).
//   - The audit list is cut short or changed: [Store.Verify] says from which entry on it does not hold. Nothing repairs it.
//   - Commits are missing (the log was removed or damaged, an older database was put back, the audit list was cut): Open refuses with what is
//     missing, as the file head has seen it.
//   - Power fails: the log is replayed at the next start. Nothing that was acknowledged is lost.
//
// # The directory
//
//	stagepost.db      the database (with -wal and -shm beside it while it is open)
//	owner             locked by the process that has the store open; says who that is
//	head              the newest commit, synced with each one: a database that misses any is refused, see [Accept]
//	has-data          there was a database here: if it is missing, something is wrong and the store does not start empty
package sqlite
