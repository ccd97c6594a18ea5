package job_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
)

var life = lc.Must("test.seal",
	lc.OnQueue("Waiting", "it waits",
		lc.OnPass("begin", "Done", lc.Worker, "it is taken")).Bounded("nothing is done here"),
	lc.OnEnd("Done", lc.OK, "it is done"),
)

// sealed makes a job with two history entries whose every field has a value.
func sealed() (job.Job, []job.Event) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 123456000, time.UTC)
	j, first := job.New(job.Job{ID: "tst_1", Kind: "test.seal", Position: life.Start(), Definition: life.Hash()},
		lc.Owner, "ann", at)
	j.Worker, j.Epoch, j.Cause = "w1", 7, "why"
	to, _ := life.Next(j.Position, "begin", lc.Worker)
	next, second, err := job.Apply(j, &job.Change{
		Job: j.ID, Epoch: 7, Event: "begin", To: to, Ended: true, By: lc.Worker, Actor: "w1", Note: "a note",
		At: at.Add(time.Second),
	})
	if err != nil {
		panic(err)
	}
	return next, []job.Event{first, *second}
}

// TestSealIsForEver pins the canonical form: histories that were written under it must verify under every later
// version.
func TestSealIsForEver(t *testing.T) {
	j, history := sealed()
	const want = "44181554f0a646dacf705525585ca1ac2488533d7a905d353947b784cc710578"
	if got := j.Head.String(); got != want {
		t.Errorf("the canonical form of history entries changed: got %s, want %s", got, want)
	}
	if err := job.Verify(j, history, life); err != nil {
		t.Errorf("control: %v", err)
	}
}

// TestBeganIsSealed pins the canonical form of entries that have the beginning of their work: with an address and
// without one they are different from each other and from those without a beginning. A beginning after the entry is
// left out.
func TestBeganIsSealed(t *testing.T) {
	j, history := sealed()
	hashes := map[job.Hash]bool{}
	for _, address := range []string{"", "192.0.2.7"} {
		for _, began := range []time.Time{{}, history[1].At, history[1].At.Add(-time.Microsecond)} {
			e := history[1]
			e.Address, e.Began = address, began
			e.Seal(history[0].Hash)
			hashes[e.Hash] = true
		}
	}
	if len(hashes) != 6 || !hashes[history[1].Hash] {
		t.Errorf("%d different hashes", len(hashes))
	}
	e := history[1]
	e.Began = e.At.Add(-1500 * time.Millisecond)
	e.Seal(history[0].Hash)
	const want = "1ee0f67555c9ea2a8742646e2ed6b0ba14e9df9371595a2471bca5865b397d73"
	if got := e.Hash.String(); got != want {
		t.Errorf("the canonical form of history entries with a beginning changed: got %s", got)
	}
	to, _ := life.Next(life.Start(), "begin", lc.Worker)
	j.Position = life.Start()
	for after, keeps := range map[time.Duration]bool{0: true, -time.Hour: true, time.Microsecond: false} {
		c := job.Change{Job: j.ID, Version: j.Version, Event: "begin", To: to, By: lc.Worker, At: e.At,
			Began: e.At.Add(after)}
		if _, made, err := job.Apply(j, &c); err != nil || made.Began.IsZero() == keeps {
			t.Errorf("%s after the entry: %+v, %v", after, made, err)
		}
	}
}

// TestVerifyFindsEveryChange changes each field of an entry, and the list itself.
func TestVerifyFindsEveryChange(t *testing.T) {
	for name, change := range map[string]func(j *job.Job, h *[]job.Event){
		"job":     func(_ *job.Job, h *[]job.Event) { (*h)[1].Job = "tst_2" },
		"event":   func(_ *job.Job, h *[]job.Event) { (*h)[1].Event = "fail" },
		"from":    func(_ *job.Job, h *[]job.Event) { (*h)[1].From = "Done" },
		"to":      func(_ *job.Job, h *[]job.Event) { (*h)[1].To = "Waiting" },
		"outcome": func(_ *job.Job, h *[]job.Event) { (*h)[1].Outcome = lc.Failed },
		"by":      func(_ *job.Job, h *[]job.Event) { (*h)[1].By = lc.Operator },
		"actor":   func(_ *job.Job, h *[]job.Event) { (*h)[1].Actor = "w2" },
		"cause":   func(_ *job.Job, h *[]job.Event) { (*h)[1].Cause = "" },
		"note":    func(_ *job.Job, h *[]job.Event) { (*h)[1].Note = "another" },
		"epoch":   func(_ *job.Job, h *[]job.Event) { (*h)[1].Epoch++ },
		"address": func(_ *job.Job, h *[]job.Event) { (*h)[1].Address = "192.0.2.7" },
		"began":   func(_ *job.Job, h *[]job.Event) { (*h)[1].Began = (*h)[1].At },
		"at":      func(_ *job.Job, h *[]job.Event) { (*h)[1].At = (*h)[1].At.Add(time.Microsecond) },
		"shifted": func(_ *job.Job, h *[]job.Event) { (*h)[1].Actor, (*h)[1].Cause = "w1w", "hy" },
		"lost":    func(_ *job.Job, h *[]job.Event) { *h = (*h)[:1] },
		"first":   func(_ *job.Job, h *[]job.Event) { *h = (*h)[1:] },
		"resealed": func(_ *job.Job, h *[]job.Event) {
			(*h)[1].Note = "forged"
			(*h)[1].Seal((*h)[0].Hash)
		},
		"record": func(j *job.Job, _ *[]job.Event) { j.State = "Waiting" },
	} {
		t.Run(name, func(t *testing.T) {
			j, history := sealed()
			change(&j, &history)
			if err := job.Verify(j, history, life); err == nil {
				t.Error("the change was not found")
			}
		})
	}
}

func TestHashReadsWhatItWrites(t *testing.T) {
	j, _ := sealed()
	text, _ := j.Head.MarshalText()
	var back job.Hash
	if err := back.UnmarshalText(text); err != nil || back != j.Head {
		t.Errorf("got %s, %v", back, err)
	}
	for _, bad := range []string{"x", strings.Repeat("0", 63), strings.Repeat("0", 66), strings.Repeat("g", 64)} {
		if err := back.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
