// Package postgres keeps jobs in a PostgreSQL database (15 or later), which any number of servers share.
//
// # The authoritative data
//
// The tables job_made and job_now have the records, event the histories, audit the audit log. The tables lane, turn and
// tally are derived from them in the same commit: the queue and the counts. Users read the views (jobs, history, tasks,
// holds, outbox, audit_list), which have the columns of those of package sqlite.
//
// Ended jobs are in the same tables, and in none of the indexes of the queue, which are partial. So a claim, a commit
// and a list of jobs that have not ended cost the same with ten million ended ones.
//
// # One transaction
//
//	callers -> operations -> writer: BEGIN, locks, reads (one round trip) -> rules -> writes, COMMIT (one round trip)
//	        -> answers -> hints
//	        or, if it remembers what they need: rules -> BEGIN, locks, conditions, writes, COMMIT (one round trip)
//
// One goroutine of each server writes, on a connection of its own. It takes all operations that wait, up to 512, and
// waits shortly for those of the callers that it answered last. It carries them out in one transaction: it locks and
// reads what they need, computes in Go what they write (package rules), and writes it. The rows of the tables that
// nearly all transactions change are written by one statement, whose parameters are arrays of composite types; each
// other table has a statement of its own. A refused operation has no writes. If a statement fails for a reason that
// lies in the values, each operation runs in a transaction of its own, so that only the faulty one fails.
//
// The writer remembers the records that it wrote last. If it has all that its operations need, it locks their rows and
// reads only the versions, which every change raises; it reads a record whose version is another one. Jobs that workers
// have claimed, other than batches, are not even locked: other changes of them are rare. The statement that
// writes them fails if one has another version, and the transaction begins again and locks and reads what it needs, as
// do the next 100. What a transition leaves as it is, such as the data of a job, is not written again.
//
// A transaction reads nothing at all if the writer remembers what it would read. It assumes that records have their
// versions, that there is no hold, that no job has become due and none with a better priority waits in the states in
// which it claims, that lanes exist, that counters have the values that this server gave them last (only while it is
// alone: another one raises them too), and that the clock of the database goes on like its own. Its statements check
// all of this under the same locks and fail if anything is different. Then the transaction is rolled back and carried
// out again with reads, as are the next 16. Limits that guard the next state, labels, messages, entries of the audit
// log and claims that are no chain always take reads.
//
// Transactions are READ COMMITTED. Each statement sees what was committed before it began, and locks come before the
// reads that depend on them. All servers take locks in one order:
//
//  1. the row of the writer (see Failures),
//  2. the advisory lock of the holds: shared by what claims or requires holds, exclusive to change one,
//  3. the advisory lock of each kind whose limits a claim must observe,
//  4. the counters that the operations raise (table given), by name: the numbers of a kind, of rows, of messages, of
//     the audit log,
//  5. the records: jobs, and the batches whose counts may change, by id (FOR UPDATE). The batch is locked with the job,
//     so that of two jobs that end at once the second one sees the first as ended; remembered jobs that workers have
//     claimed are locked when they are written, after 7, by row,
//  6. messages, by key,
//  7. jobs to be claimed, with SKIP LOCKED, which waits for nothing,
//  8. counts and turns, by key; the counts of each server are in rows of their own, and their sum counts,
//  9. the advisory locks of lanes, by number. What removes lanes has the exclusive lock of the holds before, so that a
//     transaction that has the shared one can rely on a lane that exists.
//
// Should two transactions wait for each other nevertheless (a job gets a batch's lock late because it has changed
// meanwhile, or a claimed job is changed by two servers), PostgreSQL ends one, and the store tries again.
//
// A row number gives the order of creation. Its counter is locked until the commit, as is that of each kind's numbers,
// so that both increase in the order in which jobs become visible, and a cursor of a list skips none.
//
// An entry of a history gets a number among all entries, from a sequence, when its job is locked: those of one job
// increase, and no server waits for another one. [Store.Entries] gives the number up to which all entries are
// committed: it waits for the row of each writer.
//
// # Claims
//
// Jobs that have the same kind, state, group, owner, tags, required labels and large batch are a lane: limits and
// holds, except those on single jobs, block all of a lane or nothing of it. A lane has the keys of its first job
// (priority, last turn of the owner, row) and of its eldest one. A claim reads lanes in the order of these keys, with
// their first jobs, until no lane that it has not read can be better. Lanes of owners and groups whose limits are full
// are left out by the statement. Lanes that a hold blocks are marked, when it is put or when a claim finds them, and
// not read until a hold is released. So the costs of a claim grow neither with the jobs nor with the owners that wait.
// They grow with the number of active jobs, with the lanes of owners and groups that have reached a limit or are under
// a hold that ends by itself, and with the holds on single jobs.
//
// A worker with labels first searches for the sets of its labels that jobs require, and then claims from the lanes of
// each. Lanes of other sets are not read.
//
// Searches for the jobs of a lane begin at its keys. So they do not pass over the index entries of former jobs, which
// remain as long as some transaction of the database is older, such as that of a backup.
//
// The keys are lower bounds. A transaction that adds a job lowers them if necessary, under the shared lock of the
// lane's bucket. A claim that finds them too low raises them, under the exclusive lock. If another transaction has the
// shared one, the claim leaves them as they are. So no job is overlooked, and lanes whose jobs are gone are not visited
// twice.
//
// The first lanes of the states in which a transaction may claim are read in the same round trip as its records, and
// so are the turns of owners. Limits, jobs that the writer does not remember and further lanes take more round trips.
//
// The turns of owners are in the database: owners take turns with all servers. Each server counts its own grants for
// [job.Ageing].
//
// A job with a time before which it is not due is promoted when a claim finds that the time has come, in a transaction
// of its own. A claim with an earlier time passes over it.
//
// The time is that of the database ([job.Claim.Now] is not used), so that clocks of servers that differ neither
// shorten a lease nor grant one twice.
//
// # Hints
//
// After a commit, the other servers are notified (LISTEN, NOTIFY) outside of the transaction. Hints may be merged or
// lost: a lost one costs time until the next sweep of an engine, nothing else. A server that has the database alone
// sends none. One that begins to listen sends a notification without hints, after which the others notify it; they
// count each other by the lock that each of them shares, every [Options.LeadEvery].
//
// The connection that listens also has the lock of the leader ([Store.Leads]), the server that does what one server
// does for all. The lock is a lease: the leader uses the connection every [Options.LeadEvery], and if it did not for
// [Options.LeadFor], another server ends the connection.
//
// # Failures
//
//   - The connection is lost, the database server ends or a replica takes over, a deadlock, a lock that takes too long:
//     the operations are tried again, for [Options.Patience]. Then they fail with kind Unavailable.
//   - The context of a caller ends: its operation fails with kind Unavailable, unless an attempt may have been
//     committed. Then the caller waits for the result, at most [Options.Patience] and the time of the last attempt:
//     what was claimed has a worker.
//   - The answer of a COMMIT is lost: each transaction of a server has a number, which it writes to the server's row of
//     the table writer. The next attempt has the same number. It first waits for that row. If the row has the number,
//     the transaction was committed, and its answers are given; otherwise it is carried out. So nothing is done twice.
//   - A server stops within a transaction: PostgreSQL ends the transaction when the connection ends, at the latest
//     after 15 s without a statement.
//   - The database server has fsync off: Open refuses it.
//   - An entry of a history or of the audit log was changed: [Store.Verify] names it, by the hash of each entry.
//
// Backups, replicas and recovery are those of PostgreSQL.
package postgres
