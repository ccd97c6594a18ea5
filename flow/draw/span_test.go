package draw_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/draw"
)

// TestSpansOfRecords: what each state states about the time.
func TestSpansOfRecords(t *testing.T) {
	failed := &flow.Failure{Type: "E"}
	for name, c := range map[string]struct {
		rec  flow.Record
		want []draw.Span
	}{
		"pending": {flow.Record{State: flow.Pending}, nil},
		"runs": {flow.Record{State: flow.Running, Began: at(1)},
			[]draw.Span{{Doing: draw.Executes, From: at(1), To: now, Open: true}}},
		"waits": {flow.Record{State: flow.Running, Began: at(1), Waits: true, Awaits: "s"},
			[]draw.Span{{Doing: draw.Waits, From: at(1), To: now, Open: true}}},
		"done": {flow.Record{State: flow.Success, Began: at(1), Ended: at(2)},
			[]draw.Span{{Doing: draw.Executes, From: at(1), To: at(2)}}},
		"failed": {flow.Record{State: flow.FailureState, Began: at(1), Ended: at(2)},
			[]draw.Span{{Doing: draw.Executes, From: at(1), To: at(2), Failed: true}}},
		"reverts": {flow.Record{State: flow.Reverting, Began: at(1)},
			[]draw.Span{{Doing: draw.Reverts, From: at(1), To: now, Open: true}}},
		"revert failed": {flow.Record{State: flow.RevertFailure, Began: at(1), Ended: at(2)},
			[]draw.Span{{Doing: draw.Reverts, From: at(1), To: at(2), Failed: true}}},
		"is reverted": {
			flow.Record{State: flow.Reverting, ExecuteBegan: at(1), ExecuteEnded: at(2), Began: at(3)},
			[]draw.Span{{Doing: draw.Executes, From: at(1), To: at(2)},
				{Doing: draw.Reverts, From: at(3), To: now, Open: true}},
		},
		"failed and reverted": {
			flow.Record{State: flow.Reverted, Failure: failed, ExecuteBegan: at(1), ExecuteEnded: at(2), Began: at(3),
				Ended: at(4)},
			[]draw.Span{{Doing: draw.Executes, From: at(1), To: at(2), Failed: true},
				{Doing: draw.Reverts, From: at(3), To: at(4)}},
		},
		"ignored": {flow.Record{State: flow.Ignore}, nil},
		"backs off": {
			flow.Record{State: flow.Running, Began: at(1), Ended: at(2), Waits: true, Tries: 1, Failure: failed,
				Due: at(200)},
			[]draw.Span{{Doing: draw.Executes, From: at(1), To: at(2), Failed: true},
				{Doing: draw.BacksOff, From: at(2), To: now, Open: true}},
		},
		"controller pauses": {
			flow.Record{Kind: flow.KindRetry, State: flow.Success, Intention: flow.ToRetry, Began: at(1), Ended: at(2),
				Due: at(200)},
			[]draw.Span{{Kind: flow.KindRetry, Doing: draw.Executes, From: at(1), To: at(2)},
				{Kind: flow.KindRetry, Doing: draw.BacksOff, From: at(2), To: now, Open: true}},
		},
	} {
		if diff := cmp.Diff(c.want, draw.SpansOf([]flow.Record{c.rec}, now)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestSpansOfEvents: every attempt on its own, as listeners received it.
func TestSpansOfEvents(t *testing.T) {
	e := func(atom string, seconds float64, within flow.Within, to ...float64) flow.Event {
		ev := flow.Event{Atom: atom, Kind: flow.KindTask, Old: flow.Running, New: flow.Running, At: at(seconds),
			Within: within}
		if len(to) > 0 {
			ev.Due = at(to[0])
		}
		return ev
	}
	change := func(ev flow.Event, to string) flow.Event {
		ev.Old, ev.New = "", flow.Pending
		for _, s := range flow.TaskLife.Stages() {
			if string(s.State) == to {
				ev.New = s.State
			}
		}
		return ev
	}
	got := draw.SpansOfEvents([]flow.Event{
		{New: flow.Running, At: at(0)},
		change(e("a", 1, ""), "RUNNING"), e("a", 1, flow.Progressed), e("a", 2, flow.TriedAgain, 5),
		change(e("a", 7, ""), "SUCCESS"),
		change(e("b", 3, ""), "RUNNING"), e("b", 4, flow.Waits), change(e("b", 9, ""), "FAILURE"),
		change(e("a", 10, ""), "REVERTING"), change(e("a", 11, ""), "REVERT_FAILURE"),
		change(e("c", 12, ""), "RUNNING"), e("c", 13, flow.Waits, 20),
	}, at(30))
	span := func(atom string, d draw.Doing, from, to float64, failed, open bool) draw.Span {
		return draw.Span{Atom: atom, Kind: flow.KindTask, Doing: d, From: at(from), To: at(to), Failed: failed,
			Open: open}
	}
	want := []draw.Span{
		span("a", draw.Executes, 1, 2, true, false), span("a", draw.BacksOff, 2, 5, false, false),
		span("a", draw.Executes, 5, 7, false, false),
		span("b", draw.Executes, 3, 4, false, false), span("b", draw.Waits, 4, 9, true, false),
		span("a", draw.Reverts, 10, 11, true, false),
		span("c", draw.Executes, 12, 13, false, false), span("c", draw.Waits, 13, 20, false, false),
		span("c", draw.Executes, 20, 30, false, true),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestWholeMessages: what failed and was rolled back is marked in every drawing, with all of its message; a task that
// was rolled back with it is not.
func TestWholeMessages(t *testing.T) {
	o, err := flow.OutlineOf(flow.Linear("f", task("a"), task("b")))
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for i := range 40 {
		words = append(words, fmt.Sprintf("word%d", i))
	}
	recs := []flow.Record{
		{Name: "a", Kind: flow.KindTask, State: flow.Reverted, Began: at(1), Ended: at(2)},
		{Name: "b", Kind: flow.KindTask, State: flow.Reverted, Began: at(1), Ended: at(2),
			Failure: &flow.Failure{Type: "E", Message: strings.Join(words, " ")}},
	}
	pictures := map[string]string{"tree": strings.Join(draw.Tree(o, recs, draw.TreeOptions{Now: now}), "\n")}
	for name, d := range map[string]drawer{"culprit SVG": draw.SVG, "dashed\" DOT": draw.DOT,
		"culprit Mermaid": draw.Mermaid} {
		pictures[name] = drawn(t, d, o, recs, draw.Options{Now: now})
	}
	for name, text := range pictures {
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("%s lacks %s", name, w)
				break
			}
		}
		if n := strings.Count(text, "failed: E"); n == 0 || n > 2 { // the label and the tip
			t.Errorf("%s: marked %d times:\n%s", name, n, text)
		}
	}
}

// TestTicks: the axis is marked in steps that people count in, whatever the time taken.
func TestTicks(t *testing.T) {
	for whole, want := range map[time.Duration]string{
		0:                        "0",
		7 * time.Millisecond:     "0 1ms 2ms 3ms 4ms 5ms 6ms 7ms",
		70 * time.Second:         "0 10s 20s 30s 40s 50s 1m 1m10s",
		3 * time.Hour:            "0 30m 1h 1h30m 2h 2h30m 3h",
		50 * time.Hour:           "0 6h 12h 18h 1d 30h 36h 42h 2d",
		100 * 24 * time.Hour:     "0 16d 32d 48d 64d 80d 96d",
		100000 * 24 * time.Hour:  "0 16384d 32768d 49152d 65536d 81920d 98304d",
		-time.Hour:               "0",
		900 * time.Microsecond:   "0",
		2500 * time.Microsecond:  "0 1ms 2ms",
		25*time.Minute + 1:       "0 5m 10m 15m 20m 25m",
		4*time.Minute + 1:        "0 30s 1m 1m30s 2m 2m30s 3m 3m30s 4m",
		time.Duration(1<<63 - 1): "0 16384d 32768d 49152d 65536d 81920d 98304d",
	} {
		lines := draw.TimelineText([]draw.Span{{Atom: "a", Doing: draw.Executes, From: began, To: began.Add(whole)}},
			draw.TimelineOptions{Width: 104})
		if got := strings.Join(strings.Fields(lines[1]), " "); got != want {
			t.Errorf("%s: %s, want %s", whole, got, want)
		}
	}
}

// TestTimelinesOfNothing: flows that have not begun have an axis too.
func TestTimelinesOfNothing(t *testing.T) {
	if got := draw.TimelineText(nil, draw.TimelineOptions{}); len(got) != 1 || got[0] != "nothing has begun" {
		t.Errorf("%q", got)
	}
	var b strings.Builder
	if err := draw.Timeline(&b, nil, draw.TimelineOptions{}); err != nil ||
		!strings.Contains(b.String(), "nothing has begun") {
		t.Errorf("%v: %s", err, b.String())
	}
}

// TestFailuresAreSeen: what follows a failure at once does not cover its mark.
func TestFailuresAreSeen(t *testing.T) {
	spans := []draw.Span{
		{Atom: "a", Doing: draw.Executes, From: at(0), To: at(5), Failed: true},
		{Atom: "a", Doing: draw.Reverts, From: at(5), To: at(10)},
	}
	lines := draw.TimelineText(spans, draw.TimelineOptions{Width: 40})
	if want := "a     ###########!<<<<<<<<<<<< 10s"; lines[2] != want {
		t.Errorf("%q, want %q", lines[2], want)
	}
	var b strings.Builder
	if err := draw.Timeline(&b, spans, draw.TimelineOptions{}); err != nil {
		t.Fatal(err)
	}
	if cross, bar := strings.LastIndex(b.String(), `class="icon"`), strings.LastIndex(b.String(),
		`class="bar"`); cross < bar {
		t.Error("a bar is drawn over the mark of a failure")
	}
}

// TestTimelineWithoutPauses: the time beside a lane is that in which the task did something. A task that was rolled
// back later did nothing in between.
func TestTimelineWithoutPauses(t *testing.T) {
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	spans := []draw.Span{{Atom: "a", Doing: draw.Executes, From: at(0), To: at(3)},
		{Atom: "a", Doing: draw.Reverts, From: at(791), To: at(796)}}
	lines := draw.TimelineText(spans, draw.TimelineOptions{Width: 104})
	if text := strings.Join(lines, "\n"); !strings.Contains(text, " 8ms") {
		t.Errorf("got %s", text)
	}
	var svg strings.Builder
	err := draw.Timeline(&svg, spans, draw.TimelineOptions{})
	if err != nil || !strings.Contains(svg.String(), ">8ms</text>") {
		t.Errorf("got %s, %v", svg.String(), err)
	}
}
