package report

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var update = flag.Bool("update", false, "write testdata; files of older versions are left alone")

// whole is a report in which every member has a value.
func whole() *Batch {
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	r := &Batch{BatchReport: api.BatchReport{
		Batch: "bat_1", State: stateFailed, Status: "Failed", Message: "no such file", Profile: "maps",
		Type: "batch-manifest", Filename: "four.checkm",
		Submitter: "ann", Note: "second try", Submitted: at, Ended: at.Add(time.Minute), Generation: 2, Expected: 4,
		Pending: 1, Completed: 1, Failed: 1, Deleted: 1,
		Changes: &Changes{Since: 1, Succeeded: []job.ID{"ing_1"}, Newly: []job.ID{}, Failed: []job.ID{"ing_2"},
			Open: []job.ID{"ing_3"}, Deleted: []job.ID{"ing_4"}},
		Jobs: []Job{
			{
				Job: "ing_1", State: stateCompleted, Outcome: lifecycle.OK, Row: 1, Filename: "one",
				URL: "https://example.org/one", ARK: "ark:/1/a",
				LocalIDs: []string{"l1", "l2"}, Title: "First", Version: 2, Files: 3, Bytes: 4,
			},
			{
				Job: "ing_2", State: stateFailed, Outcome: lifecycle.Failed, Row: 2, Filename: "two",
				URL:      "https://example.org/two",
				FailedIn: stateEstimating, Cause: "not-found", Message: "no such file", Retries: 1,
			},
			{Job: "ing_3", State: stateDownloading, Row: 3, Title: "Third", Retries: 2},
			{Job: "ing_4", State: stateDeleted, Outcome: lifecycle.Failed, Row: 4, Cause: "server", Message: "503"},
		},
	}}
	r.Explain("")
	return r
}

// TestJSON: files of reports and letters in the outbox outlive the program that wrote them, and clients read the same.
func TestJSON(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	for name, v := range map[string]struct{ value, read any }{
		"batch.json": {whole(), new(Batch)},
		"queued.json": {&Queued{Batch: "bat_1", Filename: "four.checkm", Profile: "maps", Submitter: "ann",
			Submitted: at, Bytes: 7, Objects: 4}, new(Queued)},
		"unqueued.json": {&Queued{Batch: "bat_1", Profile: "maps", Submitted: at, Bytes: 7, Cause: "too-large",
			Failure: "8 bytes,\nat most 7"}, new(Queued)},
	} {
		got, err := json.MarshalIndent(v.value, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, got, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if err := json.Unmarshal(want, v.read); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(v.value, v.read); diff != "" {
			t.Errorf("%s, read: %s", name, diff)
		}
	}
}

// TestJSONOfOlderVersions reads a report from before there were changes and plain words.
func TestJSONOfOlderVersions(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "older.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r Batch
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	want := Batch{BatchReport: api.BatchReport{
		Batch: "bat_1", State: stateFailed, Status: "Failed", Message: "no such file", Profile: "maps",
		Submitted: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC),
		Expected:  1, Failed: 1,
		Jobs: []Job{{Job: "ing_2", State: stateFailed, Outcome: lifecycle.Failed, Row: 2, Filename: "two",
			FailedIn: stateEstimating, Cause: "not-found", Message: "no such file"}},
	}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
}

// TestDigest: the records of batches keep the digest of the last report, so that another digest of the same would send
// mails without news.
func TestDigest(t *testing.T) {
	r := whole()
	const want = "fe953164430ad2fe3a1c7dd12b07ad9d6a0043c802181f1638201aaaac3daa01"
	if got, err := r.Digest(); got != want || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
	r.Jobs[1].Retries, r.Jobs[1].Reason, r.Summary = 9, "other words", "other words"
	if got, err := r.Digest(); got != want || err != nil {
		t.Errorf("a retry that failed in the same way, in other words: got %s, %v", got, err)
	}
	r.Jobs[1].Message = "another"
	if got, err := r.Digest(); got == want || err != nil {
		t.Errorf("control: news were not seen: %v", err)
	}
}
