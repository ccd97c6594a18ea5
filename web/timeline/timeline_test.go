package timeline

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

func at(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }

func stageOf(s lifecycle.State) lifecycle.Stage {
	kinds := map[lifecycle.State]lifecycle.Kind{"Queued": lifecycle.Queue, "Writing": lifecycle.Work,
		"Sent": lifecycle.End}
	return lifecycle.Stage{State: s, Kind: kinds[s]}
}

// TestTimeline: the time by state, with the attempts that failed.
func TestTimeline(t *testing.T) {
	history := []job.Event{
		{To: "Queued", At: at(0)}, {From: "Queued", To: "Writing", At: at(2)},
		{From: "Writing", To: "Writing", Event: lifecycle.Backoff, At: at(3), Cause: "net"},
		{From: "Writing", To: "Writing", Event: "priority", At: at(4)},
		{From: "Writing", To: "Writing", Event: lifecycle.Backoff, At: at(7), Cause: "net"},
		{From: "Writing", To: "Sent", At: at(10), Outcome: lifecycle.OK},
	}
	ended := Of(stageOf, history, Until{At: at(60)})
	var got []string
	for _, s := range ended {
		line := fmt.Sprintf("%s %s %s", s.State, s.Took, s.Spent)
		for _, a := range s.Attempts {
			line += fmt.Sprintf(" %s after %s", a.Cause, a.Took)
		}
		got = append(got, line)
	}
	want := []string{"Queued 2m0s waiting", "Writing 8m0s waiting and working net after 1m0s net after 4m0s",
		"Sent 0s waiting"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if last := ended[2]; ended[1].Parts[0].X != ended[0].Parts[0].W || last.Parts[0].X+last.Parts[0].W > 1000 ||
		last.Parts[0].W < least || !last.End || last.Open {
		t.Errorf("the bar: %+v", ended)
	}
}

// TestOpen: a job waits in a state of workers until one has it, and works in a queue once one has it. Of a past moment
// no claim is known.
func TestOpen(t *testing.T) {
	history := []job.Event{{To: "Queued", At: at(0)}, {From: "Queued", To: "Writing", At: at(2)}}
	for _, c := range []struct {
		entries int
		until   Until
		spent   string
		waits   bool
	}{
		{2, Until{}, "waiting", true}, {2, Until{Claimed: true}, "a worker has it", false},
		{2, Until{Past: true}, "waiting and working", false},
		{1, Until{}, "waiting", true}, {1, Until{Claimed: true}, "a worker has it", false},
		{1, Until{Past: true}, "waiting", true},
	} {
		c.until.At = at(12)
		all := Of(stageOf, history[:c.entries], c.until)
		last := all[len(all)-1]
		if !last.Open || last.Took != at(12).Sub(last.From) || last.Spent != c.spent || last.Waits != c.waits {
			t.Errorf("%+v: got %+v", c, last)
		}
	}
}

// begun is an entry whose work began at a minute.
func begun(minute int, e job.Event) job.Event {
	e.Began = at(minute)
	return e
}

// TestWaitingAndWorking: past stays are divided at the beginnings of claims. What no entry has is not divided.
func TestWaitingAndWorking(t *testing.T) {
	loop := func(minute int, event lifecycle.Event) job.Event {
		return job.Event{From: "Writing", To: "Writing", Event: event, Epoch: 2, At: at(minute)}
	}
	queued := job.Event{To: "Queued", Event: job.Create, At: at(0)}
	writing := begun(1, job.Event{From: "Queued", To: "Writing", Event: "begin", Epoch: 1, At: at(2)})
	sent := job.Event{From: "Writing", To: "Sent", Event: "send", Epoch: 2, At: at(30)}
	for _, c := range []struct {
		name    string
		entries []job.Event
		until   Until
		spent   []string
		parts   []int // of the second stay; waiting ones are negative
	}{
		{"attempts", []job.Event{queued, writing, begun(7, loop(12, lifecycle.Backoff)), begun(25, sent)}, Until{},
			[]string{"waiting 1 min, working 1 min", "waiting 18 min, working 10 min (12m0s after 10m0s: 5m0s)",
				"waiting"}, []int{-163, 164, -427, 164}},
		{"other entries in the work", []job.Event{queued, writing, loop(6, "priority"), loop(12, "priority"),
			begun(10, sent)}, Until{}, []string{"waiting 1 min, working 1 min",
			"waiting and working, at least 20 min of it working", "waiting"}, []int{131, -131, 656}},
		{"a claim that was kept", []job.Event{queued, writing, begun(2, sent)}, Until{},
			[]string{"waiting 1 min, working 1 min", "working", "waiting"}, []int{918}},
		{"no claim since", []job.Event{queued, writing, begun(2, loop(20, lifecycle.Yield)), sent}, Until{},
			[]string{"waiting 1 min, working 1 min", "waiting 10 min, working 18 min", "waiting"}, []int{590, -328}},
		{"lost", []job.Event{queued, writing, loop(20, lifecycle.Lost), begun(25, sent)}, Until{},
			[]string{"waiting 1 min, working 1 min", "waiting and working, at least 5 min of it working", "waiting"},
			[]int{590, -164, 164}},
		{"open", []job.Event{queued, writing, begun(7, loop(12, lifecycle.Backoff))}, Until{},
			[]string{"waiting 1 min, working 1 min", "waiting, after 5 min of work (12m0s after 10m0s: 5m0s)"}, nil},
		{"an attempt with other entries in it", []job.Event{queued, writing, loop(10, "priority"),
			begun(7, loop(12, lifecycle.Backoff))}, Until{},
			[]string{"waiting 1 min, working 1 min", "waiting, after 5 min of work (12m0s after 10m0s: 5m0s)"}, nil},
		{"claimed", []job.Event{queued, writing, begun(7, loop(12, lifecycle.Backoff))}, Until{Claimed: true},
			[]string{"waiting 1 min, working 1 min", "a worker has it, after 5 min of work (12m0s after 10m0s: 5m0s)"}, nil},
	} {
		c.until.At = at(60)
		var spent []string
		all := Of(stageOf, c.entries, c.until)
		for _, s := range all {
			text := s.Spent
			for _, a := range s.Attempts {
				text += fmt.Sprintf(" (%s after %s: %s)", a.At.Sub(noon), a.Took, a.Worked)
			}
			spent = append(spent, text)
		}
		if diff := cmp.Diff(c.spent, spent); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		x := all[0].Parts[0].X
		for _, s := range all {
			for _, p := range s.Parts {
				if p.X != x || p.W < 1 {
					t.Errorf("%s: the bar has a gap at %d: %+v", c.name, x, s.Parts)
				}
				x += p.W
			}
		}
		var parts []int
		for _, p := range all[1].Parts {
			if p.Waits {
				p.W = -p.W
			}
			parts = append(parts, p.W)
		}
		if diff := cmp.Diff(c.parts, parts); diff != "" && c.parts != nil {
			t.Errorf("%s: parts (-want +got):\n%s", c.name, diff)
		}
	}
}
