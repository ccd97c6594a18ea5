package slurm

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/quantity"
)

// end is all that is known of an end.
type end struct {
	exit    *exited // nil: it wrote nothing down
	row     row     // what Slurm reports; without an id: nothing
	meaning meaning // of its state
	killed  bool    // on request
	ran     bool    // a run of it began
	limits  compute.Limits
	log     string // the end of what Slurm wrote into slurm.out
	dir     string // of the executor
}

// ending puts it together. How run.sh ended is what it wrote down itself; why, Slurm has better: a script that was sent
// TERM for its time limit records no more than that.
func (e *end) ending() compute.Ending {
	ending := compute.Ending{Exit: -1, CPUMS: e.row.cpu.Milliseconds(), Memory: e.row.memory}
	if e.ran {
		ending.Started, ending.Finished = e.row.start, e.row.end
		if !ending.Started.IsZero() && !ending.Finished.IsZero() {
			ending.WallMS = max(0, ending.Finished.Sub(ending.Started).Milliseconds())
		}
	}
	if x := e.exit; x != nil {
		ending.Exit, ending.Started, ending.Finished = x.Exit, time.Unix(x.Started, 0).UTC(), time.Unix(x.Finished,
			0).UTC()
		ending.WallMS, ending.Disk, ending.LogCut = x.WallMS, x.Disk<<10, x.Cut
		ending.CPUMS = max(ending.CPUMS, x.CPUMS)
		if x.Signal > 0 {
			ending.Exit, ending.Signal = -1, signalName(x.Signal)
		}
		e.own(&ending)
		return ending
	}
	e.theirs(&ending)
	return ending
}

// own is the cause of an end that run.sh's wrapper wrote down.
func (e *end) own(ending *compute.Ending) {
	x, m := e.exit, e.meaning
	well := x.Exit == 0 && x.Signal == 0
	cause, sentence := "", ""
	switch {
	case x.Cause == "wall":
		cause, sentence = compute.CauseTimeout, fmt.Sprintf("it ran longer than %s",
			quantity.FormatDuration(e.limits.Wall))
	case x.Cause == "disk":
		cause, sentence = compute.CauseDisk, fmt.Sprintf("it wrote more than %d bytes", e.limits.Disk)
	case e.limits.Disk > 0 && x.Disk > kibi(e.limits.Disk): // faster than the watcher checked, or at its very end
		cause, sentence = compute.CauseDisk, fmt.Sprintf("it wrote more than %d bytes", e.limits.Disk)
	case m.cause == compute.CauseMemory, e.hoggish() && !well:
		cause, sentence = compute.CauseMemory, states["OUT_OF_MEMORY"].sentence
	case well && !x.Notified:
	case x.terminated() && e.killed:
		cause, sentence = compute.CauseKilled, "it was ended on request"
	case x.terminated() && m.cause != "" && m.cause != compute.CauseExit && m.cause != compute.CauseLost:
		cause, sentence = m.cause, m.sentence
	case well:
	case x.Signal == 24 && e.limits.CPU > 0:
		cause, sentence = compute.CauseCPU, fmt.Sprintf("one of its processes used more than %s of processor time",
			quantity.FormatDuration(e.limits.CPU))
	case (x.Signal == 25 || x.Exit == 128+25) && e.limits.Disk > 0:
		cause, sentence = compute.CauseDisk, fmt.Sprintf("a file of it grew beyond %d bytes", e.limits.Disk)
	case x.Signal > 0:
		cause, sentence = compute.CauseSignal, "run.sh was ended by "+ending.Signal
	default:
		cause, sentence = compute.CauseExit, fmt.Sprintf("run.sh ended with %d", x.Exit)
	}
	ending.Cause, ending.Sentence = cause, sentence
}

// terminated reports whether run.sh was to end: the wrapper was sent TERM, or run.sh or a process of it ended by one.
// Slurm sends TERM to all processes of a job, to the wrapper maybe last.
func (x *exited) terminated() bool { return x.Notified || x.Signal == 15 || x.Exit == 128+15 }

// Codes of batch.sh that are not run.sh's: it writes no exit.json then.
const (
	codeNoDir = 125 // its directory is not there
	codeTaken = 126 // another run has the payload
	codeFile  = 53  // Slurm's own, as a signal: it cannot write its output file
)

// theirs is the end of what wrote nothing down, as Slurm reports it.
func (e *end) theirs(ending *compute.Ending) {
	r, m := e.row, e.meaning
	ending.Cause, ending.Sentence = m.cause, m.sentence
	if r.known && r.signal == 0 && m.cause == compute.CauseExit {
		ending.Exit = r.exit
	}
	if r.known && r.signal > 0 && r.signal != codeFile {
		ending.Signal = signalName(r.signal)
	}
	switch {
	case e.killed && (m.cause == compute.CauseKilled || !e.ran || m.cause == compute.CauseExit):
		ending.Exit, ending.Cause, ending.Sentence = -1, compute.CauseKilled, "it was ended on request"
	case e.hoggish():
		ending.Cause, ending.Sentence = compute.CauseMemory, states["OUT_OF_MEMORY"].sentence
	case m.cause == "" && r.id != "":
		ending.Exit, ending.Sentence = 0, "according to Slurm it ended well; it recorded nothing itself"
	case m.cause != compute.CauseExit:
	case r.exit == codeTaken:
		ending.Exit, ending.Cause = -1, compute.CauseNode
		ending.Sentence = "Slurm began it a second time, which is not let happen; of its first run there is no end"
	case r.exit == codeNoDir || r.signal == codeFile:
		ending.Exit, ending.Cause = -1, compute.CauseNode
		ending.Sentence = fmt.Sprintf("its directory cannot be used on %s: is %s shared with the nodes?",
			cmp.Or(r.node, "its node"), e.dir)
	case r.signal > 0:
		ending.Cause, ending.Sentence = compute.CauseSignal, "it was ended by "+ending.Signal
	case r.known:
		ending.Sentence = fmt.Sprintf("it ended with %d", r.exit)
	}
	if last := lastLine(e.log); last != "" && ending.Cause != "" && ending.Cause != compute.CauseKilled {
		ending.Sentence += " (" + last + ")"
	}
}

// hoggish reports whether Slurm wrote that it ended the job for its memory. With jobacct_gather/linux the state is only
// that it failed.
func (e *end) hoggish() bool {
	text := strings.ToLower(e.log)
	return strings.Contains(text, "exceeded memory limit") || strings.Contains(text, "exceeded job memory limit") ||
		strings.Contains(text, "oom-kill") || strings.Contains(text, "oom_kill")
}

func lastLine(text string) string {
	text = strings.TrimRight(text, "\n")
	return printable(text[strings.LastIndexByte(text, '\n')+1:], 300)
}
