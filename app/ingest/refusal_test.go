package ingest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
)

// TestWhyEndedByARefusal: what refused a job is shown as itself, not as the sentence of the transition, which names all
// that could have been.
func TestWhyEndedByARefusal(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha"})
	closed, small := testProfile(), testProfile()
	closed.ID, closed.Networks = "closed", nil
	small.ID, small.Limits = "small", profile.Limits{Bytes: 3}
	w := start(t, testProfile(), closed, small)
	for _, c := range []struct{ about, profile, text, cause, says string }{
		{"a network that the profile does not allow", "closed", s.manifest("a.txt"), CauseRefused, "127.0.0.1"},
		{"a limit of the profile", "small", s.manifest("a.txt"), CauseTooLarge,
			"more than the 3 bytes that profile small allows"},
		{"a file that is not there", "test", s.manifest("missing.txt"), CauseNotFound, "404"},
		{"a name", "test", manifest("mrt-ingest-manifest", s.URL+"/a.txt |  |  |  |  | aux.c"), CauseUnsafeName,
			"reserved device name"},
	} {
		r := w.ingest(Submission{Profile: c.profile}, c.text)
		if r.State != record.Failed || len(r.Jobs) != 1 {
			t.Fatalf("%s: got %s", c.about, r.Text())
		}
		j := r.Jobs[0]
		x, err := explain.New(w.e).Why(t.Context(), j.Job, never)
		if err != nil {
			t.Fatal(err)
		}
		a, ok := w.e.Life(record.JobKind).Transition(j.FailedIn, record.Fail)
		if !ok {
			t.Fatalf("%s: no transition from %s", c.about, j.FailedIn)
		}
		if !strings.Contains(x.Rule, c.says) || !strings.HasSuffix(x.Rule, "["+c.cause+"]") ||
			strings.Contains(x.Rule, a.Doc) {
			t.Errorf("%s: got %q", c.about, x.Rule)
		}
	}
	// Where nothing was refused: what was stored, not the sentence of the transition.
	j := w.one(Submission{}, s.manifest("a.txt"))
	if x, err := explain.New(w.e).Why(t.Context(), j.Job, never); err != nil ||
		!strings.HasSuffix(x.Rule, ", version 1; nothing to notify") || strings.Contains(x.Rule, "[") {
		t.Errorf("got %q, %v", x.Rule, err)
	}
}

// TestWhyBatchEndedByARefusal: why of a batch whose payload was refused has the mistake with its line and what to do,
// and does not offer an update, which counts retried jobs. Control: of a batch with a failed job it is offered.
func TestWhyBatchEndedByARefusal(t *testing.T) {
	w := start(t, testProfile())
	ended := func(name, text string) job.Blocker {
		t.Helper()
		r := w.ingest(Submission{Profile: "test", Filename: name}, text)
		x, err := explain.New(w.e).Why(t.Context(), r.Batch, never)
		if err != nil || len(x.Blockers) != 1 {
			t.Fatalf("%+v, %v", x, err)
		}
		return x.Blockers[0]
	}
	updates := func(b job.Blocker) bool {
		return slices.ContainsFunc(b.Remedies, func(r job.Remedy) bool {
			return strings.Contains(r.Command, " update ")
		})
	}
	b := ended("bad.checkm", "x|y\n")
	if b.Remedy != newSubmission || updates(b) || len(b.Remedies) == 0 ||
		!strings.HasPrefix(b.Sentence, `bad.checkm:1:1: expected #%profile | URL before the first row, found "x|y"`) {
		t.Errorf("got %+v", b)
	}
	row := "http://127.0.0.1:1/a.txt |  |  |  |  | aux.c"
	if b := ended("good.checkm", manifest("mrt-ingest-manifest", row)); !updates(b) {
		t.Errorf("control: got %+v", b)
	}
}

// TestPriorityOfUsers: a user may wait longer than in the profile, and never goes before its others.
func TestPriorityOfUsers(t *testing.T) {
	set := testProfile()
	set.ID, set.Priority = "set", new(int)
	*set.Priority = 20
	w := start(t, testProfile(), set)
	for i, c := range []struct {
		profile string
		user    bool
		order   int
		want    int // -1: refused
	}{
		{"set", true, 19, -1}, {"set", true, 0, -1}, {"set", true, 20, 20}, {"set", true, 70, 70}, {"set", false, 0, 0},
		{"test", true, 0, 5}, {"test", true, 60, 60}, {"test", false, 0, 0}, // 5 is what a batch of one job has
	} {
		ctx := t.Context()
		if c.user {
			ctx = AsUser(ctx)
		}
		b, err := w.Submit(ctx, Submission{Profile: c.profile, Submitter: "ann", Filename: "f.txt", Priority: &c.order},
			strings.NewReader(fmt.Sprint(i)))
		if c.want < 0 {
			if job.KindOf(err) != job.Refused || !strings.Contains(err.Error(), "profile set, which is 20") {
				t.Errorf("%+v: got %v", c, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		w.end(b.ID)
		if got := w.children(b.ID, 1)[0].Priority; got != c.want {
			t.Errorf("%+v: got %d", c, got)
		}
	}
}

// TestMetadataOfARefusedRow: a title that no metadata file can hold is shown all the same.
func TestMetadataOfARefusedRow(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha"})
	w := start(t)
	row := fmt.Sprintf("%s/a.txt |  |  |  |  | a.txt |  | local\x01id | A\x1bPerson | bad\x02title\x7f | 2009", s.URL)
	r := w.ingest(Submission{}, manifest("mrt-single-file-batch-manifest", row))
	if r.State != record.Failed || r.Jobs[0].Cause != CauseBadRow {
		t.Fatalf("got %s", r.Text())
	}
	m, err := w.Metadata(t.Context(), r.Jobs[0].Job)
	if err != nil || !strings.Contains(m.ERC, "bad\ufffdtitle\ufffd") ||
		!strings.Contains(m.DublinCore, "local\ufffdid") {
		t.Errorf("got %+v, %v", m, err)
	}
}
