package report

import (
	"fmt"
	"strings"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/internal/printable"
	"github.com/stagepost/stagepost/lifecycle"
)

// Remedy is who can correct the failure of an object.
type Remedy = api.Remedy

// The remedies.
const (
	RemedyStaff = api.RemedyStaff
	RemedyMend  = api.RemedyMend
	RemedyNew   = api.RemedyNew
)

// reasons are sentences for depositors about why an object failed, by cause, with who can help. RemedyMend is for files
// that a retry fetches again; what is wrong in something that lies here already, so that a retry is refused, needs a
// new submission. The causes are those of app/ingest and the engine; a test holds them against theirs.
var reasons = map[string]struct {
	says   string
	remedy Remedy
}{
	"payload-missing":     {"what you handed in is no longer in our working space", RemedyNew},
	"payload-digest":      {"what arrived is not what you described: its checksum differs", RemedyNew},
	"too-large":           {"it is larger than this collection or the free space allows", RemedyStaff},
	"corrupt-manifest":    {"its manifest cannot be read", RemedyNew},
	"empty-manifest":      {"its manifest names no files", RemedyNew},
	"wrong-type":          {"it is not of the type that was given", RemedyNew},
	"bad-row":             {"its line in the manifest has a mistake", RemedyNew},
	"unsafe-name":         {"a file has a name that cannot be stored safely", RemedyNew},
	"duplicate-name":      {"two of its files have the same name", RemedyNew},
	"refused":             {"we may not fetch from the address that was given", RemedyStaff},
	"not-found":           {"a file is not where the manifest says it is", RemedyMend},
	"http-status":         {"the server with the files did not hand one of them out", RemedyMend},
	"server":              {"the server with the files answered with an error, again and again", RemedyStaff},
	"network":             {"the server with the files could not be reached", RemedyStaff},
	"bad-digest":          {"a file is not the one that the manifest describes: its checksum differs", RemedyMend},
	"bad-size":            {"a file is not the one that the manifest describes: its size differs", RemedyMend},
	"unsafe-archive":      {"its container has something in it that cannot be unpacked safely", RemedyNew},
	"corrupt-archive":     {"its container cannot be unpacked", RemedyNew},
	"manifest-mismatch":   {"its container and the list of files in it do not agree", RemedyNew},
	"identifier-conflict": {"its identifiers belong to different objects", RemedyNew},
	"unknown-object":      {"it names an object that its depositor may not update", RemedyNew},
	"bad-identifier":      {"its identifier is not one that we can use", RemedyNew},
	"minter":              {"we could not get an identifier for it", RemedyStaff},
	"bad-metadata":        {"its description cannot be read", RemedyNew},
	"storage":             {"our storage did not take it", RemedyStaff},
	"callback":            {"it is stored, but the system that waits for news of it did not take them", RemedyStaff},
	"timeout":             {"it took longer than it may", RemedyStaff},
	"disk-full":           {"our disk was full", RemedyStaff},
}

// explain fills in the plain words of a job.
func explain(j *Job) {
	j.Reason, j.Remedy, j.Next = "", "", ""
	switch {
	case j.State == stateDeleted:
		j.Reason = "it was taken out of the submission"
	case j.Outcome == lifecycle.Failed:
		j.Reason, j.Remedy = failure(j)
		j.Next = nextSteps[j.Remedy]
	}
}

func failure(j *Job) (string, Remedy) {
	r, known := reasons[j.Cause]
	if !known {
		r.says, r.remedy = "something went wrong on our side", RemedyStaff
	}
	return r.says, r.remedy
}

var nextSteps = map[Remedy]string{
	RemedyStaff: "There is nothing for you to do: the staff of the archive can try it again.",
	RemedyMend:  "Correct the file at its address, then tell the archive; staff will retry it.",
	RemedyNew:   "Please put it right and hand it in again, as a new submission.",
}

// Explain fills in the plain words of the batch and its jobs: what happened, and what there is to do for the depositor.
// failure is why it made no jobs.
func (r *Batch) Explain(failure string) {
	for i := range r.Jobs {
		explain(&r.Jobs[i])
	}
	r.Summary, r.Next = r.happened(failure), "There is nothing for you to do."
	switch {
	case r.State == stateFailed && failure != "":
		r.Next = "Please put it right and hand it in again, as a new submission."
	case r.State == stateFailed && r.Failed > 0:
		r.Next = r.todo()
	case r.State == stateFailed && r.Expected > len(r.Jobs):
		r.Next = "Please ask the staff of the archive what can be done for the rest."
	case r.State == stateFailed && r.Pending > 0:
		r.Next = "There is nothing for you to do now: the rest is being tried again."
	case r.State == statePending, r.State == stateProcessing, r.State == stateReporting,
		r.State == stateUpdateReporting:
		r.Next = "There is nothing for you to do now."
	case r.State == stateHeld:
		r.Next = "There is nothing for you to do now: the staff of the archive will let it go on."
	}
}

func (r *Batch) happened(failure string) string {
	all := r.Completed + r.Failed + r.Deleted + r.Pending
	switch r.State {
	case statePending:
		return "We have your submission and will read it soon."
	case stateHeld:
		return "Your submission is on hold. Nothing of it is lost."
	case stateProcessing:
		return r.underWay()
	case stateReporting, stateUpdateReporting:
		return "Your submission has been worked on. The report about it is being written."
	case stateDeleted:
		return "Your submission was withdrawn. Objects that were stored before that stay stored."
	case stateCompleted:
		if r.Deleted > 0 {
			return fmt.Sprintf("%s stored, %s taken out of the submission.", objectsAre(r.Completed), are(r.Deleted))
		}
		return "Everything is stored."
	}
	if failure != "" {
		return "Your submission could not be read, and nothing of it was stored: " +
			printable.Shown(strings.TrimRight(failure, ". ")) + "."
	}
	text := "Your object could not be stored."
	switch {
	case r.Completed == all:
		text = "Everything is stored now."
	case r.Failed > 0 && all > 1:
		text = fmt.Sprintf("%d of your %d objects %s stored. %d could not be stored.", r.Completed, all,
			isAre(r.Completed), r.Failed)
	case r.Failed == 0:
		text = fmt.Sprintf("%d of your %s %s stored.", r.Completed, objects(all), isAre(r.Completed))
	}
	never := min(r.Pending, max(0, r.Expected-len(r.Jobs)))
	if n := r.Pending - never; n > 0 {
		text += fmt.Sprintf(" %s being worked on again.", are(n))
	}
	if never > 0 {
		text += fmt.Sprintf(" With %d we could not begin.", never)
	}
	if r.Deleted > 0 {
		text += fmt.Sprintf(" %s taken out of the submission.", are(r.Deleted))
	}
	return text
}

// underWay states what happens to the jobs of a batch in progress: the earliest phase of any of them.
func (r *Batch) underWay() string {
	held, open := 0, 0
	first := stateNotify
	order := []lifecycle.State{statePending, stateEstimating, stateProvisioning, stateDownloading, stateProcessing,
		stateStoring, stateRecording, stateNotify}
	at := func(s lifecycle.State) int {
		for i, one := range order {
			if one == s {
				return i
			}
		}
		return len(order)
	}
	for i := range r.Jobs {
		switch s := r.Jobs[i].State; {
		case s == stateHeld:
			held++
		case at(s) < len(order):
			open++
			if at(s) < at(first) {
				first = s
			}
		}
	}
	text := map[lifecycle.State]string{
		statePending:      "Your objects are about to be worked on.",
		stateEstimating:   "We are finding out how large your files are.",
		stateProvisioning: "Your objects wait for free space.", stateDownloading: "We are fetching your files.",
		stateProcessing: "We are preparing your objects for storage.", stateStoring: "We are storing your objects.",
		stateRecording: "We are entering your objects in the catalogue.",
		stateNotify:    "Your objects are stored; we are finishing.",
	}[first]
	switch {
	case r.Expected == 0 || len(r.Jobs) == 0:
		text = "We are reading your submission."
	case open == 0 && held > 0:
		text = "Your objects are on hold. Nothing of them is lost."
	case open == 0:
		text = "All your objects have been worked on."
	case held > 0:
		text += fmt.Sprintf(" %s on hold.", are(held))
	}
	return text
}

// todo states how many objects need what.
func (r *Batch) todo() string {
	n := map[Remedy]int{}
	for i := range r.Jobs {
		n[r.Jobs[i].Remedy]++
	}
	var parts []string
	if k := n[RemedyNew]; k > 0 {
		parts = append(parts, fmt.Sprintf("Please put %s right and hand %s in again, as a new submission.", objects(k),
			them(k)))
	}
	if k := n[RemedyMend]; k > 0 {
		parts = append(parts, fmt.Sprintf("For %s: correct the files at their addresses, then tell the archive; "+
			"staff will retry %s.", objects(k), them(k)))
	}
	if k := n[RemedyStaff]; k > 0 {
		parts = append(parts, fmt.Sprintf("The staff of the archive can try %s again; there is nothing for you to "+
			"do for %s.", objects(k), them(k)))
	}
	return strings.Join(parts, " ")
}

func objects(n int) string {
	if n == 1 {
		return "1 object"
	}
	return fmt.Sprintf("%d objects", n)
}

func objectsAre(n int) string {
	if n == 1 {
		return "1 object is"
	}
	return fmt.Sprintf("%d objects are", n)
}

func are(n int) string {
	if n == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%d are", n)
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func them(n int) string {
	if n == 1 {
		return "it"
	}
	return "them"
}
