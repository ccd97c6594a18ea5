// Package sqldb opens the databases of applications: a SQLite file of one server, or a schema of a PostgreSQL database
// that any number of servers share. Applications write each statement once, in the SQL that both understand.
//
// # Statements
//
// Parameters are ?, or ?N where one is used more than once, as in SQLite; for PostgreSQL they are rewritten to $N. A
// conflict names its columns (ON CONFLICT (a, b) DO ...), an existing column in DO UPDATE has the name of its table,
// and aggregates count by FILTER. The functions instr and json_group_array, which PostgreSQL lacks, are in each schema.
// The columns of a [Schema] compare texts by their bytes unless they name a collation. PostgreSQL refuses the byte 0
// and texts that are not UTF-8; such bytes are escaped.
//
// # Writes of several servers
//
// Packages that were written for SQLite's single writer check and write in one transaction, and rely on no other
// transaction coming between. So each transaction that writes takes one lock first, an advisory lock of its schema, and
// the transactions of all servers come one after the other. The statements after it see all that was committed before
// (READ COMMITTED).
//
// # Failures
//
//   - The connection is lost, the database server ends or a replica takes over: the transaction is tried again, for
//     [Options.Patience]. Reads are repeated too. Then the error is of type *[Unavailable].
//   - The answer of a COMMIT is lost: each transaction of a server has a number, which it writes to the server's row of
//     the table writers. The next attempt has the same number, and waits for the lock, which the earlier one may still
//     have. If the row has the number, the transaction was committed. So nothing is done twice.
//   - A server stops within a transaction: PostgreSQL ends the transaction when the connection ends, at the latest
//     after 15 s without a statement.
//   - Nothing arrives from the database server for [Options.Timeout]: the connection is closed, as if it were lost.
//   - The database server has fsync off: [Open] refuses it. Commits are synced also where synchronous_commit is off.
//
// Backups, replicas and recovery are those of PostgreSQL.
package sqldb
