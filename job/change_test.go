package job_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
)

// TestApplyKeep: who loses a claim, its epoch and its starts by which change.
func TestApplyKeep(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	j := job.Job{ID: "tst_1", Version: 5, Epoch: 7, Worker: "w1", Until: at.Add(time.Hour), Starts: 2, Priority: 50,
		Entered: at}
	j.State = "Running"
	stays := job.Change{Job: j.ID, At: at.Add(time.Minute), To: j.Position, Event: lc.Reprioritize, By: lc.Operator}
	for _, c := range []struct {
		name    string
		with    func(*job.Change)
		epoch   int64
		claimed bool
		starts  int
	}{
		{"a person's loop that keeps", func(c *job.Change) { c.Version, c.Keep = 5, true }, 7, true, 2},
		{"a person's loop that does not", func(c *job.Change) { c.Version = 5 }, 8, false, 0},
		{"a person's news", func(c *job.Change) { c.Version, c.Event = 5, "" }, 7, true, 2},
		{"a worker's loop that keeps", func(c *job.Change) { c.Epoch, c.Keep = 7, true }, 7, true, 2},
		{"a worker's loop that does not", func(c *job.Change) { c.Epoch = 7 }, 7, false, 0},
		{"a lost claim", func(c *job.Change) { c.Version, c.Event = 5, lc.Lost }, 8, false, 2},
	} {
		change := stays
		c.with(&change)
		got, _, err := job.Apply(j, &change)
		if err != nil || got.Epoch != c.epoch || got.Claimed() != c.claimed || got.Starts != c.starts ||
			got.Version != 6 || !got.Entered.Equal(at) {
			t.Errorf("%s: epoch %d, claimed %t, starts %d, version %d, %v", c.name, got.Epoch, got.Claimed(),
				got.Starts, got.Version, err)
		}
		if c.claimed && !got.Until.Equal(j.Until) {
			t.Errorf("%s: the claim ends %v", c.name, got.Until)
		}
	}
}

// TestRequireHold: holds that have ended or concern others do not count.
func TestRequireHold(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	before := job.Job{ID: "tst_1", Tags: job.Tagged("queue=a")}
	before.State = "Parked"
	after := before
	after.State = "Waiting"
	on := func(s job.Scope) []job.Hold {
		return []job.Hold{{Scope: job.Scope{Tag: "queue=b"}}, {Scope: s, Until: at.Add(1)}}
	}
	over := []job.Hold{{Scope: job.Scope{Tag: "queue=a"}, Until: at}}
	held, free, unheld := job.Require{Held: true}, job.Require{Free: true}, job.Require{Unheld: true}
	for _, c := range []struct {
		name    string
		require job.Require
		holds   []job.Hold
		want    job.ErrorKind
	}{
		{"nothing required", job.Require{}, on(job.Scope{}), ""},
		{"held, none", held, nil, job.Conflict},
		{"held by its tag", held, on(job.Scope{Tag: "queue=a"}), ""},
		{"held where it comes to", held, on(job.Scope{State: "Waiting"}), job.Conflict},
		{"held, over", held, over, job.Conflict},
		{"free, none", free, nil, ""},
		{"free, its tag", free, on(job.Scope{Tag: "queue=a"}), job.Refused},
		{"free, where it comes to", free, on(job.Scope{State: "Waiting"}), job.Refused},
		{"free, where it is", free, on(job.Scope{State: "Parked"}), ""},
		{"free, over", free, over, ""},
		{"unheld, where it is", unheld, on(job.Scope{State: "Parked"}), job.Refused},
		{"unheld, where it comes to", unheld, on(job.Scope{State: "Waiting"}), ""},
		{"unheld, over", unheld, over, ""},
	} {
		if got := job.KindOf(c.require.Hold(&before, &after, c.holds, at)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestTagged(t *testing.T) {
	if got := job.Tagged(); got != nil {
		t.Errorf("of nothing: %v", got)
	}
	got := job.Tagged("queue=a", "", "place=main", "queue=a")
	if diff := cmp.Diff([]string{"place=main", "queue=a"}, got); diff != "" {
		t.Error(diff)
	}
	if s := (job.Scope{Tag: "queue=a", Group: "maps"}); s.String() != "group=maps queue=a" {
		t.Errorf("the scope is written %q", s)
	}
}

// TestBytesAreBounded checks that the sum of the sizes of many jobs fits into the tally of a store, whatever a
// specification or a step states.
func TestBytesAreBounded(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for given, want := range map[int64]int64{0: 0, 7: 7, 1 << 50: 1 << 50, 1<<63 - 1: 1 << 50, -1: 0} {
		j, _ := job.New(job.Job{ID: "tst_1", Bytes: given}, lc.Owner, "ann", at)
		set := job.Fields{Bytes: &given}
		changed, _, err := job.Apply(j, &job.Change{Job: j.ID, Version: j.Version, At: at, Set: set})
		if j.Bytes != want || err != nil || changed.Bytes != want {
			t.Errorf("%d: got %d, and %d after a change, want %d, %v", given, j.Bytes, changed.Bytes, want, err)
		}
	}
}
