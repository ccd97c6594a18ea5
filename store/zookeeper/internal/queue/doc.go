// Package queue has the operations on a Merritt ingest queue, which Java and Ruby programs may use at the same time.
// The nodes are those of package layout.
//
// Each change is one multi, so that no other client observes half of it, and no crash leaves half of it. It sets the
// status node at the version that was read. The operation's id in that node (a key that other programs keep) shows
// after an unknown result whether the change was made.
//
// # Locks and fencing
//
// A worker acquires a record by creating its ephemeral lock, and by setting its status node in the same multi: the
// version of that node is the fencing token. A worker whose lock is gone has an older version, and is refused. The
// version of a lock is no token, because a lock that is created again begins at 0 again.
//
// Other programs create a lock and change nothing else, so that the status keeps its version. Therefore a lock of this
// package is set once when it is created and has version 1, while locks of others have version 0. Every change by the
// holder of a lock requires version 1, and removes the lock at that version only.
//
// # Numbers
//
// Nodes are named as sequential nodes of ZooKeeper are: by the number of children that were ever created. A record is
// created whole in one multi, under the next name; the multi is refused if another client took the name first.
//
// # Data of others
//
// Records that cannot be read are skipped and returned as [Bad]; they do not stop the others of their state. Trees that
// the other libraries leave when they crash between two of their writes are recognized: see [Queue.Repair].
package queue
