package plain_test

import (
	"strings"
	"testing"

	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/web/plain"
)

func words(k job.Kind, code string) string {
	if k == "letter" && code == "ink" {
		return "it waits for ink"
	}
	return plain.Waits[""][code]
}

// TestWaitsAreThoseOfTheEngine: the reasons of the engine have plain words, without terms of operators. Those that
// state what a person or a timer does, or that are causes of failures, have words of their own.
func TestWaitsAreThoseOfTheEngine(t *testing.T) {
	for _, code := range []string{explain.BlockDue, explain.BlockClaim, explain.BlockLimit, explain.BlockBusy,
		explain.BlockBehind, explain.BlockAlone, explain.BlockNoWorker, explain.BlockOutside, cause.Hold, cause.Stopped,
		cause.Children} {
		text := plain.Waits[""][code]
		if text == "" {
			t.Errorf("%s has no plain words", code)
		}
		for _, term := range []string{"worker", "claim", "lease", "slot", "engine", "stagepost", "batch"} {
			if strings.Contains(text, term) {
				t.Errorf("%s: %q has the term %s", code, text, term)
			}
		}
	}
	for _, code := range []string{cause.Poison, cause.Timeout, cause.Network, cause.Disk, explain.BlockEnded,
		explain.BlockPerson, explain.BlockTimer, explain.BlockStorage} {
		if text := plain.Waits[""][code]; text != "" {
			t.Errorf("%s has the words %q", code, text)
		}
	}
}

// TestPlain: a reason with plain words has no holder and no remedy of operators; others, and what happened at the end
// of a job, stay as they are. A hold keeps its reason.
func TestPlain(t *testing.T) {
	of := plain.Words(words)
	got := of.Blockers(&job.Job{Kind: "letter"}, []job.Blocker{
		{Code: "ink", Sentence: "the well of desk 3 is empty", Holder: "desk 3", Remedy: "fill it"},
		{Code: "hold", Sentence: "group=maps is on hold: the shelf moves", Holder: "oscar"},
		{Code: "person", Sentence: "Draft: its author decides", Holder: "owner", Remedy: "decide"},
	})
	for i, want := range []job.Blocker{
		{Code: "ink", Sentence: "it waits for ink"},
		{Code: "hold", Sentence: plain.Waits[""]["hold"] + ": the shelf moves"},
		{Code: "person", Sentence: "Draft: its author decides", Holder: "owner", Remedy: "decide"},
	} {
		if b := got[i]; b.Sentence != want.Sentence || b.Holder != want.Holder || b.Remedy != want.Remedy {
			t.Errorf("got %+v, want %+v", b, want)
		}
	}
	for _, c := range []struct {
		j    job.Job
		want string
	}{
		{job.Job{Kind: "letter", Cause: "ink", Message: "the well is empty"}, "it waits for ink"},
		{job.Job{Kind: "note", Cause: "ink", Message: "the well is empty"}, "the well is empty"},
		{job.Job{Kind: "letter", Cause: "ink"}, ""},
		{job.Job{Kind: "letter", Cause: "ink", Message: "lost", Ended: true}, "lost"},
	} {
		if got := of.Message(&c.j); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.j, got, c.want)
		}
	}
}
