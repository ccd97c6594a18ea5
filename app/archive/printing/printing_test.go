package printing

import (
	"testing"

	"github.com/stagepost/stagepost/app/archive/workdir"
)

// TestPrintable: what the sources make of persons is printed, and not what persons uploaded.
func TestPrintable(t *testing.T) {
	for name, want := range map[string]bool{
		"attempts/ann/2/attempt-2.html":                  true,
		"attempts/ann/2/attempt-2.json":                  false,
		"attempts/ann/2/attachments/1/answer.html":       false,
		"submissions/user5/submission.html":              true,
		"submissions/user5/Submission/files/essay.html":  false,
		"submissions/user5/Submission/x/submission.html": false,
		"discussions/7/discussion.html":                  true,
		"discussions/7/attachments/1/discussion.html":    false,
		"activity.html": false,
		"files/submissions/user5/submission.html":          false,
		"source-responses/submissions/x/submission.html":   false,
		"submissions/submission.html":                      false,
		"attachments/submissions/user5/submission.html":    false,
		"discussions/7/attachments/discussion.html":        false,
		"submissions/user5/attempt-1/files/submission.htm": false,
	} {
		if got := printable("quiz-1", &workdir.File{Name: "quiz-1/" + name}); got != want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
