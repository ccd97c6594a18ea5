package slurm

import (
	"fmt"
	"strings"

	"github.com/stagepost/stagepost/app/compute"
)

// meaning is what a state of Slurm is here.
type meaning struct {
	standing compute.Standing
	cause    string // of an end
	sentence string // for people: of an end, and of what else needs a word
}

// states has each base state and flag of Slurm (slurm.h, enum job_states and JOB_*; squeue(1), "JOB STATE CODES"). A
// job is in one base state and may have flags, which squeue shows instead of it.
var states = map[string]meaning{
	"PENDING":   {standing: compute.Waits},
	"RUNNING":   {standing: compute.Works},
	"SUSPENDED": {standing: compute.Works, sentence: "Slurm has suspended it: others have its processors"},

	"COMPLETED":     {standing: compute.Ended},
	"CANCELLED":     {compute.Ended, compute.CauseKilled, "it was cancelled in Slurm"},
	"FAILED":        {compute.Ended, compute.CauseExit, "it ended badly"},
	"TIMEOUT":       {compute.Ended, compute.CauseTimeout, "it reached its time limit in Slurm"},
	"NODE_FAIL":     {compute.Ended, compute.CauseNode, "its node failed"},
	"PREEMPTED":     {compute.Ended, compute.CausePreempt, "Slurm ended it in favour of another job"},
	"BOOT_FAIL":     {compute.Ended, compute.CauseNode, "its node did not boot"},
	"DEADLINE":      {compute.Ended, compute.CauseTimeout, "its deadline in Slurm passed"},
	"OUT_OF_MEMORY": {compute.Ended, compute.CauseMemory, "it used more memory than it may"},
	"LAUNCH_FAILED": {compute.Ended, compute.CauseNode, "Slurm could not start it on its node"},

	"COMPLETING":    {standing: compute.Works, sentence: "it has ended, and Slurm clears up after it"},
	"CONFIGURING":   {standing: compute.Waits, sentence: "its node is being made ready"},
	"POWER_UP_NODE": {standing: compute.Waits, sentence: "its node is being switched on"},
	"EXPEDITING":    {standing: compute.Waits, sentence: "Slurm starts it before others"},
	"REQUEUED":      {standing: compute.Waits, sentence: "Slurm has queued it again"},
	"REQUEUE_FED":   {standing: compute.Waits, sentence: "Slurm has queued it again, at another cluster"},
	"REQUEUE_HOLD":  {standing: compute.Waits, sentence: "Slurm has queued it again and holds it"},
	"SPECIAL_EXIT":  {standing: compute.Waits, sentence: "Slurm has queued it again after a special exit and holds it"},
	"RESV_DEL_HOLD": {standing: compute.Waits, sentence: "its reservation was deleted, and Slurm holds it"},
	"RESIZING":      {standing: compute.Works, sentence: "its size is being changed"},
	"SIGNALING":     {standing: compute.Works, sentence: "it is being sent a signal"},
	"STAGE_OUT":     {standing: compute.Works, sentence: "its burst buffer is being written out"},
	"STOPPED":       {standing: compute.Works, sentence: "a signal has stopped it; it keeps its processors"},
	"UPDATE_DB":     {standing: compute.Works, sentence: "Slurm writes down what became of it"},
	"RECONFIG_FAIL": {standing: compute.Works, sentence: "its node could not be set up as it should"},
	"REVOKED":       {standing: compute.Lost, sentence: "another cluster of the federation has taken it over"},
}

// meant reads a state as a command prints it: "RUNNING", "CANCELLED by 0", "OUT_OF_ME+", "COMPLETED+COMPLETING",
// "RUNNING,STOPPED". It is total: an unknown word leaves the job where it may still end, with the word shown. A job is
// not over while its flags show that it goes on.
func meant(text string) meaning {
	words, by, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(text)), " BY ")
	var all []meaning
	for word := range strings.FieldsFuncSeq(words, func(r rune) bool { return r == ',' || r == ' ' || r == '+' }) {
		m, ok := states[word]
		if !ok && strings.HasSuffix(words, "+") {
			m, ok = completed(word)
		}
		if !ok {
			return unknown(text)
		}
		all = append(all, m)
	}
	if len(all) == 0 {
		return unknown(text)
	}
	m := all[0]
	for _, flag := range all[1:] {
		if flag.standing != compute.Ended || m.standing == compute.Ended && m.cause == "" {
			m = flag
		}
	}
	if by = strings.TrimSpace(by); by != "" && m.cause == compute.CauseKilled {
		m.sentence += " by user " + printable(by, 40)
	}
	return m
}

func unknown(text string) meaning {
	return meaning{standing: compute.Works,
		sentence: fmt.Sprintf("Slurm reports %q, a state that is not known here", printable(text, 60))}
}

// completed finds the state of which a word is the beginning, if there is one.
func completed(word string) (m meaning, ok bool) {
	for name, candidate := range states {
		if strings.HasPrefix(name, word) {
			if ok {
				return meaning{}, false
			}
			m, ok = candidate, true
		}
	}
	return m, ok
}

// printable bounds a text of others and takes out what is no text.
func printable(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " "))
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
