package sandbox

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/stagepost/stagepost/edge/disk"
)

// ending derives the ending from everything that was observed.
func (r *running) ending() Ending {
	e := Ending{Exit: -1, Cause: r.cause, Tier: r.tier, Wall: r.over.Sub(r.began)}
	if r.began.IsZero() {
		e.Wall = 0
	}
	if r.group != nil {
		if u, err := r.group.Usage(); err == nil {
			r.usage = u
		}
		e.CPU, e.PeakMemory = r.usage.CPU, r.usage.PeakMemory
	} else {
		e.CPU, e.PeakMemory = r.seenCPU, r.peak
	}
	signal := unix.SIGKILL // what ended the command if its init was ended with it
	if t := r.report; t != nil {
		e.Exit, signal = t.Exit, unix.Signal(t.Signal)
		e.CPU = max(e.CPU, t.CPU)
		if r.group == nil {
			e.PeakMemory = max(e.PeakMemory, t.MaxRSS)
		}
	}
	if e.Exit < 0 {
		e.Signal = unix.SignalName(signal)
		if e.Signal == "" {
			e.Signal = fmt.Sprintf("signal %d", int(signal))
		}
	}
	e.StdoutBytes, e.StderrBytes = r.stdout.bytes.Load(), r.stderr.bytes.Load()
	e.Cut = r.stdout.cut.Load() || r.stderr.cut.Load()
	used, err := disk.Usage(context.Background(), r.held(), 0)
	e.DiskUsed = used
	if e.Cause == Itself {
		e.Cause = r.blame(&e, signal, errors.Is(err, disk.ErrTooDeep))
	}
	e.Sentence = e.sentence(r.c)
	if r.usage.ProcessLimitHits > 0 && r.c.Limits.Processes > 0 {
		e.Sentence += fmt.Sprintf("; it reached its limit of %d processes and threads", r.c.Limits.Processes)
	}
	if e.Starved = int64(r.usage.OOMKills); e.Starved > 0 && e.Cause != Memory {
		e.Sentence += fmt.Sprintf("; processes of it were ended for memory: %d", e.Starved)
	}
	return e
}

// blame finds the limit behind an ending that the command seems to have come to by itself. A command that ended well in
// spite of a limit ended well, but for the disk: what is too much there stays.
func (r *running) blame(e *Ending, signal unix.Signal, unmeasured bool) Cause {
	l := r.c.Limits
	bad := e.Exit != 0
	// a shell ends so when its child did
	died := func(s unix.Signal) bool { return bad && (e.Exit == -1 && signal == s || e.Exit == 128+int(s)) }
	scratch := int64(0)
	if r.report != nil {
		scratch = r.report.Scratch
	}
	switch {
	case bad && l.Memory > 0 && r.usage.OOMKills > 0:
		return Memory
	case l.CPU > 0 && bad && (e.CPU >= l.CPU || died(unix.SIGXCPU)):
		return CPU
	case l.Disk > 0 && e.DiskUsed+scratch > l.Disk:
		return Disk
	case l.Disk > 0 && unmeasured:
		return Depth
	case l.Disk > 0 && bad && (died(unix.SIGXFSZ) || e.DiskUsed+scratch >= l.Disk-disk.EntryBytes*8):
		return Disk
	case e.Exit == -1:
		return Signal
	}
	return Itself
}
