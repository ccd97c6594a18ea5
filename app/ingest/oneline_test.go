package ingest

import (
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/record"
)

// TestTextsAreTrimmed drops blanks and line ends around texts, as those of files have them.
func TestTextsAreTrimmed(t *testing.T) {
	w := start(t)
	j := w.one(Submission{Filename: "a.txt", Title: " A title\n", Creator: "Ann  Bea\t", Note: "two  blanks\n",
		Date: "2001\n", LocalIDs: []string{"l1\n"}, DigestType: " md5 ", DigestValue: md5Hex("a") + "\n"}, "a")
	if j.Title != "A title" || j.Creator != "Ann  Bea" || j.Date != "2001" || j.LocalIDs[0] != "l1" {
		t.Errorf("got %+v", j)
	}
	w.described(j, "v1", map[string][]string{record.IngestName: {"\nnote: two  blanks\n", "\ntitle: A title\n"}})
	_, err := w.Submit(t.Context(), Submission{Profile: "test", Title: "a\x00"}, strings.NewReader("x"))
	if err == nil || !strings.Contains(err.Error(), "control character") {
		t.Errorf("control: got %v", err)
	}
}
