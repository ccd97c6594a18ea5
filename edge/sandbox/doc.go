// Package sandbox runs one command of a stranger, confined, and tells why it ended. It knows no job.
//
// Three tiers are tried at the start by really running a command in each:
//
//	native  namespaces (user, mount, pid, net, ipc, uts, cgroup), Landlock, a seccomp filter, no capabilities; made by this package alone
//	bwrap   the same policy as arguments of bubblewrap, where an administrator allows namespaces to it and not to others
//	none    no namespaces: the filter, no capabilities, rlimits, and an end of the whole process tree; files and network of the user stay open
//
// Every tier has the same three processes:
//
//	agent (Run) ──plan, T, K──> init ──fork──> the command
//	      <────status──────────┘                 │
//	      <────gate: "here is my pid" / "go"─────┘
//
// The init is this program, executed again (see Init). As PID 1 of its namespace it takes everything with it when it ends; in tier none it is the subreaper of all that
// the command begins, and kills it before it ends. It ends when the command's first process does, when it is told to, and when the agent dies: by the death signal
// that the kernel sends, and because its control pipe ends.
//
// The command's process waits at the gate, already forked, until the agent has put it into its control groups; so these hold the command and nothing of ours.
//
// Limits are kept by control groups where there are some (package cgroup), else by rlimits and by a watch that looks four times a second.
//
// As root with a free range of user ids, each command gets a user id of its own on the machine, and its directory is shown to it through an id-mapped mount: files that it writes
// belong to the caller on disk, no file is ever given away by path, and nothing of the command can signal or read a process of root. Where the kernel or the file system
// cannot do this, the id in the sandbox stands for the caller's own. In the sandbox the id is always 1000, without capabilities.
package sandbox
