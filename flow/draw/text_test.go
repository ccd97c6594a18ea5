package draw

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/internal/svgtest"
	"github.com/stagepost/stagepost/lifecycle"
)

func TestRoomAndCut(t *testing.T) {
	for _, c := range []struct {
		text string
		room int
		most int
		want string
	}{
		{"plain", 5, 5, "plain"}, {"plain", 5, 4, "pla…"}, {"plain", 5, 1, "…"}, {"plain", 5, 0, ""},
		{"漢字かな", 8, 8, "漢字かな"}, {"漢字かな", 8, 7, "漢字か…"}, {"漢字かな", 8, 6, "漢字…"}, {"한글", 4, 3, "한…"},
		{"e\u0301a", 2, 2, "e\u0301a"}, {"🙂🙂", 4, 3, "🙂…"}, {"a\u200bb", 2, 2, "a\u200bb"}, {"", 0, 3, ""},
		{"z" + strings.Repeat("\u0301", 99), 1, 2, "z…"},
	} {
		if got := columnsOf(c.text); got != c.room {
			t.Errorf("width(%q) = %d, want %d", c.text, got, c.room)
		}
		if got := cut(c.text, c.most); got != c.want && !(strings.HasPrefix(c.text, "z") && len(got) < 20) {
			t.Errorf("cut(%q, %d) = %q, want %q", c.text, c.most, got, c.want)
		}
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"a\nb\tc\rd\u2028e": "a b c d e", "a\x1b[2Jb": "a[2Jb", "\u202eabc\u2066": "abc", "a\x00b\u0085\u009b": "ab",
		"\ufffe\uffff\ufdd0x": "x",
		"\ue000":              "\ufffd", "a\xffb": "a\ufffdb", "naïve 漢": "naïve 漢",
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestTook(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "0ms", 320 * time.Millisecond: "320ms", 1260 * time.Millisecond: "1.2s", 59 * time.Second: "59s",
		192 * time.Second:           "3m12s",
		5*time.Hour + 3*time.Minute: "5h03m", 102 * time.Hour: "4d06h",
	} {
		if got := took(d); got != want {
			t.Errorf("took(%d) = %s, want %s", d, got, want)
		}
	}
}

// TestEveryStateHasALook: states that the tables have are never drawn as unknown, and no two that mean different things
// appear alike without colour.
func TestEveryStateHasALook(t *testing.T) {
	for _, table := range []*lifecycle.Table{flow.Life, flow.TaskLife, flow.RetryLife} {
		for _, stage := range table.Stages() {
			if _, ok := looks[stage.State]; !ok {
				t.Errorf("%s has no style", stage.State)
			}
		}
	}
	shapes, symbols := map[string]string{}, map[string]string{}
	for _, stage := range flow.TaskLife.Stages() {
		l := looks[stage.State]
		if icons[l.class] == "" || shapes[icons[l.class]] != "" {
			t.Errorf("%s has the icon of %s", stage.State, shapes[icons[l.class]])
		}
		if symbols[l.symbol] != "" || columns([]rune(l.symbol)[0]) != 1 || l.plain[0] > 0x7e {
			t.Errorf("%s has the symbol of %q, or not one of a column", stage.State, symbols[l.symbol])
		}
		shapes[icons[l.class]], symbols[l.symbol] = string(stage.State), string(stage.State)
	}
}

func TestStatus(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	past := func(d time.Duration) time.Time { return now.Add(-d) }
	why := &flow.Failure{Type: "IOError", Message: "disk\nfull"}
	for name, c := range map[string]struct {
		rec  flow.Record
		want string // line | note | class
	}{
		"pending": {flow.Record{State: flow.Pending}, "PENDING||pending"},
		"runs": {flow.Record{State: flow.Running, Attempts: 1, Began: past(12 * time.Second)},
			"RUNNING · 12s||running"},
		"after a restart": {flow.Record{State: flow.Running, Attempts: 2, Began: past(12 * time.Second),
			Ended: past(time.Hour)}, "RUNNING · attempt 2 · 12s||running"},
		"failed":         {flow.Record{State: flow.FailureState, Failure: why}, "FAILURE|IOError: disk full|failed"},
		"revert failed":  {flow.Record{State: flow.RevertFailure, Failure: &flow.Failure{Type: "E"}, RevertFailure: why}, "REVERT_FAILURE|IOError: disk full; it had failed: E|worse"},
		"cannot go back": {flow.Record{State: flow.RevertFailure, RevertFailure: why}, "REVERT_FAILURE|IOError: disk full|worse"},
		"reverted":       {flow.Record{State: flow.Reverted}, "REVERTED||reverted"},
		"to blame":       {flow.Record{State: flow.Reverted, Failure: why}, "REVERTED|failed: IOError: disk full|culprit"},
		"being reverted": {flow.Record{State: flow.Reverting, Failure: why}, "REVERTING|failed: IOError: disk full|culprit"},
		"went along": {flow.Record{State: flow.Reverted,
			Failure: &flow.Failure{Type: flow.TypeCancelled, Message: "x"}}, "REVERTED|Cancelled: x|reverted"},
		"was interrupted": {flow.Record{State: flow.Reverted, Failure: &flow.Failure{Type: flow.TypeInterrupted}},
			"REVERTED|Interrupted|reverted"},
		"waits": {
			flow.Record{State: flow.Running, Waits: true, Awaits: "go\x1b", Due: now.Add(time.Minute)}, "RUNNING|waits for the signal go, until 12:01:00 UTC, in 1m00s|waits",
		},
		"sleeps":    {flow.Record{State: flow.Running, Waits: true, Due: now.Add(72 * time.Hour)}, "RUNNING|waits until 2026-05-07 12:00 UTC, in 3d00h|waits"},
		"overslept": {flow.Record{State: flow.Running, Waits: true, Due: past(time.Second)}, "RUNNING|waits until 11:59:59 UTC, now|waits"},
		"backs off": {
			flow.Record{State: flow.Running, Waits: true, Tries: 1, Ended: past(time.Second), Failure: why,
				Due: now.Add(time.Second), Attempts: 2},
			"RUNNING · attempt 2|tries again at 12:00:01 UTC, in 1.0s, after IOError: disk full|waits",
		},
		"controller runs": {flow.Record{Kind: flow.KindRetry, State: flow.Running, History: make(flow.History, 1)},
			"RUNNING · attempt 2||running"},
		"controller pauses": {
			flow.Record{Kind: flow.KindRetry, State: flow.Success, Intention: flow.ToRetry, Due: now.Add(time.Second),
				History: make(flow.History, 1)},
			"SUCCESS · attempt 1|next attempt at 12:00:01 UTC, in 1.0s|waits",
		},
	} {
		s := statusOf(&c.rec, now)
		if diff := cmp.Diff(c.want, s.line()+"|"+s.note+"|"+s.class); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestLinksThatFollowAreLeftOut, but not those with deciders.
func TestLinksThatFollowAreLeftOut(t *testing.T) {
	link := func(from, to int, d flow.Depth) flow.OutlinedLink {
		return flow.OutlinedLink{From: from, To: to, Depth: d}
	}
	got := needed(4, []flow.OutlinedLink{link(0, 1, ""), link(0, 2, ""), link(0, 3, flow.DepthAtom), link(1, 2, ""),
		link(2, 3, ""), link(1, 3, "")})
	want := []flow.OutlinedLink{link(0, 1, ""), link(0, 3, flow.DepthAtom), link(1, 2, ""), link(2, 3, "")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// FuzzTexts puts any text into every position that a user or a failed program can write to.
func FuzzTexts(f *testing.F) {
	f.Add("name", "message", 40)
	f.Add("\x1b[2J\u202e漢\xff", "]]>\"<&\x00", 7)
	f.Fuzz(func(t *testing.T, name, message string, width int) {
		o := &flow.Outline{Kind: flow.KindFlow, Name: name, Pattern: flow.PatternLinear,
			Items: []*flow.Outline{{Kind: flow.KindTask, Name: name}, {Kind: flow.KindTask, Name: message}}}
		rec := flow.Record{Name: name, State: flow.FailureState,
			Failure: &flow.Failure{Type: message, Message: message}}
		recs := []flow.Record{rec, {Name: message, State: lifecycle.State(message), Waits: true, Awaits: name}}
		var b strings.Builder
		if err := SVG(&b, o, recs, Options{ID: name, State: lifecycle.State(name)}); err != nil {
			t.Fatal(err)
		}
		if err := svgtest.WellFormed(b.String()); err != nil {
			t.Fatal(err)
		}
		for _, l := range Tree(o, recs, TreeOptions{Width: width, Unicode: true}) {
			if clean(l) != l || width > 0 && columnsOf(l) > width {
				t.Fatalf("a line that is not clean, or too long: %q", l)
			}
		}
	})
}

// TestWrap: nothing is lost, and no line is longer than it may be.
func TestWrap(t *testing.T) {
	for _, text := range []string{"", "one", "one two three four", strings.Repeat("x", 50),
		"a " + strings.Repeat("é", 25) + " b", "\u4e2d\u6587" + strings.Repeat("\u4e2d", 30)} {
		lines := wrap(text, 10)
		if got := strings.Join(lines, ""); strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(text, " ", "") {
			t.Errorf("%q became %q", text, lines)
		}
		for _, l := range lines {
			if columnsOf(l) > 10 {
				t.Errorf("%q has %d columns", l, columnsOf(l))
			}
		}
	}
}
