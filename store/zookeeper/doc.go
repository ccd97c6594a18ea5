// Package zookeeper is a store in ZooKeeper. It keeps records, histories, tasks, messages, holds and the audit log
// below one node, "/stagepost" by default, beside the nodes of a Merritt ingest queue that Java and Ruby programs
// share. Those nodes have operations of their own in internal/queue.
//
// One process at a time owns the store: it holds an ephemeral lock, and it has raised the epoch node. Operations that
// wait share one multi. It requires the version of the epoch node, so that a process that has lost its session is
// refused. If the servers refuse it because of one operation, each is made by itself.
//
// The owner has all records in memory, and answers reads and claims from there; it writes each change before it answers.
// After the end of its session it opens another one, takes the lock again and reads all records again. An operation
// whose result is then unknown is kind Unavailable.
//
// An operation that is larger than servers accept (1 MiB) is Refused. Nodes:
//
//	/stagepost/lock              ephemeral: the process that owns the store
//	/stagepost/installation      id of the installation
//	/stagepost/epoch             its version is the fencing token of the owner
//	/stagepost/commit            id of the last commit
//	/stagepost/counters          highest numbers of messages and rows
//	/stagepost/clock             the clock of the engine
//	/stagepost/numbers/KIND      highest number of a kind
//	/stagepost/jobs/ID           record
//	/stagepost/jobs/ID/history-N events, 50 a node
//	/stagepost/jobs/ID/task-NAME task
//	/stagepost/messages/NUMBER   message of the outbox
//	/stagepost/holds/SCOPE       hold
//	/stagepost/audit/SEQ         entry of the audit log
package zookeeper
