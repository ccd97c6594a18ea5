package sandbox

import (
	"io"
	"io/fs"
	"log/slog"
	"time"
)

// The tiers; Auto and Require are for Options only.
const (
	Auto    = "auto"    // the best that works
	Native  = "native"  // namespaces made by this program
	Bwrap   = "bwrap"   // namespaces made by bubblewrap
	None    = "none"    // no namespaces
	Require = "require" // as Auto, but never None
)

// Options are what Open may be reported; the zero value works.
type Options struct {
	Tier string // Defaults to Auto.
	// Of this agent among those on the machine: part of the names of control groups and of the mark of its commands.
	// Defaults to "stagepost".
	Name string
	Log  *slog.Logger // Defaults to none.
}

// Limits bound a command with all that it begins; zero is no limit.
type Limits struct {
	Wall, CPU time.Duration // CPU: of all processes together
	Memory    int64         // bytes, of all processes together
	Disk      int64         // bytes below Dir, and in the private temporary directory; an empty file counts as 512
	// bytes of standard output, and as many of standard error; the rest is cut and the command goes on
	Output    int64
	Processes int     // and threads
	Cores     float64 // only where there are control groups
	Files     int     // open, of each process
}

// Bind shows a file or directory of the machine, to be read only.
type Bind struct {
	From string // absolute
	To   string // absolute; defaults to From
}

// Command is what Run runs.
type Command struct {
	Argv []string // the first is looked up in the command's PATH
	// NAME=value; PATH, HOME, TMPDIR and LANG are added where missing; nothing else of the agent's environment is seen
	Env []string
	// absolute; the command's working directory, its home, and the only directory that outlives it; /job in the tiers
	// with namespaces
	Dir     string
	Same    fs.FileInfo // what Dir must be, if the caller has inspected it before. Defaults to anything
	Binds   []Bind
	Network string        // "none" (the default: a loopback of its own) or "host"
	Stdin   io.Reader     // Defaults to /dev/null. A Read that never returns does not keep Run, but stays behind.
	Stdout  io.Writer     // Defaults to nowhere; Run waits for its Write.
	Stderr  io.Writer     // Defaults to nowhere; Run waits for its Write.
	Limits  Limits        // Defaults to none.
	Grace   time.Duration // between SIGTERM and SIGKILL; defaults to 5 s
	Started func(pid int) // called once, when the command is about to run; the number is that on the machine
}

// Cause is why a command ended, if not by itself.
type Cause string

// The causes.
const (
	Itself  Cause = ""        // it exited, see Ending.Exit
	Signal  Cause = "signal"  // a signal that was not ours ended it
	Memory  Cause = "memory"  // more than Limits.Memory
	CPU     Cause = "cpu"     // more than Limits.CPU
	Timeout Cause = "timeout" // more than Limits.Wall
	Disk    Cause = "disk"    // more than Limits.Disk
	Depth   Cause = "depth"   // directories nested more deeply than can be measured, where there is a Limits.Disk
	Killed  Cause = "killed"  // the context ended
	// more than Limits.Processes where only the watch could see it; elsewhere a fork fails instead, and the sentence
	// notes it
	Processes Cause = "processes"
)

// Ending is how a command ended.
type Ending struct {
	Exit        int    // -1: by a signal
	Signal      string // as "SIGKILL"; empty if it exited
	Cause       Cause
	Sentence    string // for the user: what ended it, with the limit
	Wall, CPU   time.Duration
	PeakMemory  int64 // bytes; where there are no control groups the greatest that the watch saw
	DiskUsed    int64 // bytes below Dir, at the end
	StdoutBytes int64 // with what was cut
	StderrBytes int64 // with what was cut
	Cut         bool  // some output was cut
	Starved     int64 // processes that the kernel ended for Limits.Memory, where there are control groups
	Tier        string
}

// Check is something that was tried at the start.
type Check struct {
	Name   string
	OK     bool
	Detail string
	Remedy string // what an operator can do; empty if OK
}

const (
	defaultName  = "stagepost"
	defaultGrace = 5 * time.Second
	networkNone  = "none"
	networkHost  = "host"
	// jobDir is where Dir is seen in the tiers with namespaces.
	jobDir = "/job"
)
