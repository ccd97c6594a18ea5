// Package sandbox runs one command of a stranger, confined, and reports why it ended. It is independent of jobs.
//
// Three tiers are tried at the start by really running a command in each:
//
//	native  namespaces (user, mount, pid, net, ipc, uts, cgroup), Landlock,
//	        a seccomp filter, no capabilities; made by this package alone
//	bwrap   the same policy as arguments of bubblewrap, where an administrator allows
//	        namespaces to it and not to others
//	none    no namespaces: the filter, no capabilities, rlimits, and an end of the whole process
//	        tree; files and network of the user stay open
//
// Every tier has the same three processes:
//
//	agent (Run) ──plan, T, K──> init ──fork──> the command
//	      <────status──────────┘                 │
//	      <────gate: "here is my pid" / "go"─────┘
//
// The init is this program, executed again (see Init). As PID 1 of its namespace it takes everything with it when it
// ends; in tier none it is the subreaper of all that the command begins, and kills it before it ends. It ends when the
// command's first process does, when it is signalled, and when the agent ends: by the death signal that the kernel
// sends, and because its control pipe ends.
//
// The command's process waits at the gate, already forked, until the agent has put it into its control groups; so these
// hold the command and nothing of ours.
//
// Limits are kept by control groups where there are some (package cgroup), else by rlimits and by a watch that checks
// four times a second.
//
// If the caller is root, each command gets a user id of its own on the machine in every tier, and a caller without a
// free range of ids is refused: no command has the id of root, and none can signal or read a process of root. It
// reads the files of the machine as any other user. In the tiers with namespaces its directory is an id-mapped mount,
// so that files that it writes belong to the caller on disk. Where the kernel or the file system has none, and in tier
// none, the files in the directory belong to the command's id until the command has ended, and to the caller
// again afterwards. Commands of other callers have the caller's id on the machine. In the tiers with namespaces the
// command sees itself as user 1000, without capabilities.
package sandbox
