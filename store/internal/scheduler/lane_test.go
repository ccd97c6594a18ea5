package scheduler

import (
	"slices"
	"testing"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// TestLaneThatWasDropped: a lane remembers where its jobs went. When that lane was dropped meanwhile because it had
// no jobs, the next job that comes the same way waits in a new one, where a claim finds it.
func TestLaneThatWasDropped(t *testing.T) {
	q := New()
	in := func(id job.ID, number int64, state lifecycle.State) *job.Job {
		return &job.Job{ID: id, Number: number, Kind: "k", Position: lifecycle.Position{State: state}, Entered: start}
	}
	key := func(state lifecycle.State) laneKey {
		return laneKey{KindState: job.KindState{Kind: "k", State: state}}
	}
	for i, id := range []job.ID{"one", "two", "stays"} {
		q.Put(nil, in(id, int64(i+1), "A"))
	}
	from := q.lanes[key("A")]
	q.Put(in("one", 1, "A"), in("one", 1, "B"))
	b := q.lanes[key("B")]
	if from.next != b || b == nil {
		t.Fatal("control: lane A does not remember lane B")
	}
	ended := in("one", 1, "B")
	ended.Ended = true
	q.Put(in("one", 1, "B"), ended)
	if q.lanes[key("B")] != nil {
		t.Fatal("control: the lane without jobs is still there")
	}
	q.Put(in("two", 2, "A"), in("two", 2, "B"))
	if q.lanes[key("B")] == nil || q.lanes[key("B")] != q.entries["two"].lane {
		t.Error("the job is in a lane that the queue does not have: limits, holds and counts miss it")
	}
	got := q.Claim(&job.Claim{N: 5, Now: start, From: []job.KindState{{Kind: "k", State: "B"}}})
	if len(got) != 1 || got[0] != "two" {
		t.Errorf("a claim found %v, want the job that came into the state after the lane was dropped", got)
	}
}

// TestClaimedJobs: the claimed jobs are those whose records have a worker, in whatever order claims begin and end.
func TestClaimedJobs(t *testing.T) {
	q := New()
	record := func(id job.ID, worker string) *job.Job {
		return &job.Job{ID: id, Number: int64(id[0]), Kind: "k", Position: lifecycle.Position{State: "A"},
			Entered: start, Worker: worker}
	}
	all := []job.ID{"a", "b", "c", "d"}
	for _, id := range all {
		q.Put(nil, record(id, ""))
		q.Put(record(id, ""), record(id, "w"))
	}
	for _, id := range []job.ID{"b", "a", "d"} {
		q.Put(record(id, "w"), record(id, ""))
	}
	q.Put(record("a", ""), record("a", "w"))
	for i, e := range q.timesOf("k").claimed.entries {
		if int(e.held) != i {
			t.Errorf("%s is not where its index is", e.id)
		}
	}
	want := []Claimed{{"a", 'a'}, {"c", 'c'}}
	if got := q.ClaimedBy("w", "k", 0, 1, 9); !slices.Equal(got, want) || len(q.timesOf("k").claimed.entries) != 2 {
		t.Errorf("%v are claimed, want %v", got, want)
	}
}
