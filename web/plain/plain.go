// Package plain has the words in which pages state to depositors why a job waits. Operators get the sentences of the
// engine and of the applications, with their terms, names and commands.
package plain

import (
	"strings"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// hold is the code of a hold, whose reason a person wrote.
const hold = "hold"

// Waits are sentences for all kinds of jobs by the codes of the engine. A code that also names the cause of a failure
// is not among them.
var Waits = map[job.Kind]map[string]string{"": {
	hold:      "it is on hold, and goes on when those who run the server let it",
	"due":     "it is tried again by itself",
	"claim":   "it is being worked on",
	"limit":   "as many as are allowed are being worked on: it goes on when one of them has ended",
	"busy":    "as many are being worked on as is possible: it goes on when one of them has ended",
	"behind":  "others that came before it go first",
	"alone":   "it waits for another job to end, and goes on by itself",
	"stopped": "nothing is begun at the moment: it goes on by itself",
	"no-worker": "nothing that can work on it is there at the moment: it goes on by itself; if that lasts, ask those " +
		"who run the server",
	"outside":    "it waits for something outside this server, and goes on by itself",
	"children":   "its parts have not all ended",
	"definition": "this version of the server cannot continue it: ask those who run the server",
}}

// Words gives the sentence for a code of a kind of jobs; "" if there is none.
type Words func(k job.Kind, code string) string

// sentence returns a reason in plain words: its own text if there are none for its code. Of a hold it has the reason
// that a person gave.
func (of Words) sentence(k job.Kind, code, text string) string {
	words := of(k, code)
	if words == "" {
		return text
	}
	if _, why, given := strings.Cut(text, " is on hold: "); code == hold && given && why != "" {
		return words + ": " + why
	}
	return words
}

// Message returns the message of a job for its owner. What happened at its end is stated as it was.
func (of Words) Message(j *job.Job) string {
	if j.Ended || j.Message == "" {
		return j.Message
	}
	return of.sentence(j.Kind, j.Cause, j.Message)
}

// Blockers returns the reasons why a job waits for its owner. Those that have plain words state neither who has to act
// nor what.
func (of Words) Blockers(j *job.Job, all []job.Blocker) []job.Blocker {
	out := make([]job.Blocker, len(all))
	for i, b := range all {
		if of(j.Kind, b.Code) != "" {
			b.Sentence, b.Holder, b.Remedy = of.sentence(j.Kind, b.Code, b.Sentence), "", ""
		}
		out[i] = b
	}
	return out
}

// Entry returns who caused an entry of a history and its note, for the owner of the job. Workers have no names there,
// and a wait is stated as it is while it lasts.
func (of Words) Entry(k job.Kind, e *job.Event, who string) (by, note string) {
	if e.By&lifecycle.Worker != 0 {
		who = "the server"
	}
	if e.From != e.To {
		return who, e.Note
	}
	return who, of.sentence(k, e.Cause, e.Note)
}
