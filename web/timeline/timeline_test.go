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
	if last := ended[2]; ended[1].X != ended[0].W || last.X+last.W > 1000 || last.W < least || !last.End || last.Open {
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
