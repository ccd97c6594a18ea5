package trigger

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stagepost/stagepost/job"
)

// mostWaits is the number of activities that an explanation names.
const mostWaits = 5

// explainRun adds to the explanation of an ended run which activities it did not try again after failures, until when
// and why, and the command that shows all of its decisions.
func explainRun(j *job.Job, b *job.Blocker) {
	var o Order
	var r Record
	if !j.Ended || json.Unmarshal(j.Spec, &o) != nil || o.Begins {
		return
	}
	if len(j.Data) > 0 && json.Unmarshal(j.Data, &r) == nil {
		b.Sentence += waits(&r)
	}
	b.Remedies = append(b.Remedies, job.Running("archive schedules show "+job.Quoted(o.Name),
		"shows the decisions of the newest run, and which activities wait after failures"))
}

// waits names the activities of a record that wait after failures.
func waits(r *Record) string {
	var text strings.Builder
	named := 0
	for i := range r.Decisions {
		d := &r.Decisions[i]
		if d.Wait == nil || named == mostWaits {
			continue
		}
		named++
		fmt.Fprintf(&text, "; activity %s of course %s failed %s (%s) and is not tried again before %s unless its "+
			"content changes", d.Activity, d.Course, times(d.Wait.Failures), d.Wait.Cause, stamp(d.Wait.Until))
	}
	if more := r.Waiting - named; more > 0 {
		fmt.Fprintf(&text, "; %d more wait", more)
	}
	return text.String()
}
