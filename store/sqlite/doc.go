// Package sqlite keeps jobs in one SQLite file. It is the default store: one process, one directory, no installation.
//
// # The authoritative data
//
// The tables of stagepost.db are authoritative, with the rows of the log in front of them. Everything in memory (queue,
// counts, the lines by which lists filter, the cache of records) is derived from them at the start and follows every
// commit. [Store.Fsck] compares memory with tables, and redundant columns with their sources.
//
// A purge removes a job from all tables except the audit log. Table `given` keeps its numbers from being reused. It
// also has the times of [job.KeptClock].
//
// # The commit
//
// Without a log ([Options.NoLog]) each commit is a transaction of the database:
//
//	callers -> inbox -> loop: BEGIN, every operation through the ledger, COMMIT (one sync, the head's in parallel)
//	        -> memory -> hints -> answers
//
// One goroutine writes. It takes all waiting operations, up to 4,096, so they share the cost of a sync and the rate
// grows with the number of callers. Reads have connections of their own and see only what is synced.
//
// # The log in front
//
// A commit ends in a log, and an applier writes it to the tables behind it:
//
//	loop: every operation through the ledger, rows into a record of the log (one sync) -> overlay -> hints -> answers
//	applier: the newest version of each row of many records -> BEGIN, rows, number of the last record, COMMIT
//
// The overlay has what the tables lack, and reads merge it with them. Operations that need the tables, checks and
// backups wait until the applier has written everything. At a start the rest of the log is applied. docs/design.md has
// the format and what a crash leaves.
//
// # Failures
//
//   - An operation that the ledger refuses has written nothing and fails alone.
//   - A statement fails: the transaction is rolled back, memory is reloaded, and each operation runs in a
//     transaction of
//     its own, so that only the faulty one fails.
//   - The disk is full: operations fail with kind Unavailable. The store continues when there is free space. If the
//     applier could not write some rows, [Store.Close] returns a [job.Full], and the next start writes them.
//   - The disk fails in a COMMIT, or the file is damaged: the store stops. A sync is never retried, because after a
//     failed
//     one the content of the disk is unknown. Every call returns Unavailable, and the process should end
//     ([Options.OnDeath]).
//   - The audit log is truncated or changed: [Store.Verify] reports the first invalid entry. There is no repair.
//   - Commits are missing (the log was removed or damaged, an older database was put back, the audit log was
//     truncated):
//     Open refuses the database and reports what is missing, by the file head.
//   - A power failure: the log is replayed at the next start. No acknowledged write is lost.
//
// # The directory
//
//	stagepost.db      the database (with -wal and -shm while it is open)
//	owner             locked by the process that has the store open; its text identifies that process
//	head              the newest commit, synced with each one: a database without it is refused, see [Accept]
//	store-log         commits that the tables do not have yet, see [Options.NoLog]
//	has-data          marks a directory that had a database: if that is missing, the store does not start empty
package sqlite
