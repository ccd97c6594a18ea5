package report

import (
	"strings"
	"testing"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/lifecycle"
)

// TestPlainWords: every cause has a reason and a next step, and every state a sentence.
func TestPlainWords(t *testing.T) {
	for cause, r := range reasons {
		if r.says == "" || nextSteps[r.remedy] == "" || strings.HasSuffix(r.says, ".") {
			t.Errorf("%s: got %+v", cause, r)
		}
	}
	for state, want := range map[lifecycle.State]string{
		statePending: "about to be", stateEstimating: "how large", stateProvisioning: "free space",
		stateDownloading: "fetching", stateProcessing: "preparing", stateStoring: "storing",
		stateRecording: "catalogue", stateNotify: "finishing", stateHeld: "on hold",
	} {
		r := Batch{BatchReport: api.BatchReport{State: stateProcessing, Expected: 2,
			Jobs: []Job{{State: stateCompleted, Outcome: lifecycle.OK}, {State: state}}}}
		if r.Explain(""); !strings.Contains(r.Summary, want) || r.Next != "There is nothing for you to do now." {
			t.Errorf("%s: got %q, %q", state, r.Summary, r.Next)
		}
	}
}
