package flow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestLoggingMasks hides values by name, as results of their own, as parts of a list, and as entries anywhere; the
// control shows them.
func TestLoggingMasks(t *testing.T) {
	make := func() Item {
		a := gives("a", "hunter2")
		a.Result = One("password")
		b := &Task{Name: "b", Result: Result{Names: []string{"user", "password"}},
			Execute: func(context.Context, *Call) (any, error) { return []any{"ada", "hunter3"}, nil }}
		c := &Task{Name: "c", Result: One("account"), Execute: func(_ context.Context, c *Call) (any, error) {
			c.ProgressDetails(0.5, map[string]any{"password": "hunter4"})
			return map[string]any{"in": []any{map[string]any{"password": "hunter5", "name": "ada"}}}, nil
		}}
		return Linear("f", a, b, c, fails("d"))
	}
	for _, mask := range [][]string{{"password"}, nil} {
		var out bytes.Buffer
		item := make()
		l, err := Logging(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})), item,
			LogOptions{Mask: mask})
		if err != nil {
			t.Fatal(err)
		}
		r := rigged(t, item, Options{Listeners: []Listener{l}})
		r.run(t, Reverted)
		if shown := strings.Contains(out.String(), "hunter"); shown == (mask != nil) ||
			!strings.Contains(out.String(), "ada") {
			t.Errorf("mask %v:\n%s", mask, out.String())
		}
	}
}

// TestLoggingReportsTheChain: the atoms before a failure, the nearest first, and the levels of events.
func TestLoggingReportsTheChain(t *testing.T) {
	for chain, want := range map[int]string{0: `[c IGNORE b SUCCESS 2 x SUCCESS 9 a SUCCESS 1]`, 2: `[c IGNORE b SUCCESS 2]`, -1: ``} {
		a, b, c, d, x := gives("a", 1), gives("b", 2), gives("c", 3), fails("d"), gives("x", 9)
		g := Graph("g")
		err := errors.Join(g.Add(a, x, b, c, d), g.Link(a, b), g.Link(b, d), g.Link(c, d),
			g.LinkIf(x, c, func(Values) (bool, error) { return false, nil }, DepthAtom))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		plain := func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
		l, err := Logging(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: plain})), g,
			LogOptions{Chain: chain})
		if err != nil {
			t.Fatal(err)
		}
		r := rigged(t, g, Options{ID: "7", Listeners: []Listener{l}})
		r.run(t, Reverted)
		lines := strings.Split(out.String(), "\n")
		full := `level=WARN msg="task FAILURE" flow=7 task=d before=RUNNING failure="Failure: errors.errorString: Woot"`
		if want != "" {
			full += fmt.Sprintf(" chain=%q", want)
		}
		if lines[0] != `level=INFO msg="flow RUNNING" flow=7 before=PENDING` || lines[1] != full {
			t.Errorf("chain %d: got\n%s\nwant\n%s", chain, out.String(), full)
		}
	}
	if _, err := Logging(slog.New(slog.DiscardHandler), Linear("f", gives("a", 1), gives("a", 1)),
		LogOptions{}); !errors.Is(err, ErrDuplicate) {
		t.Errorf("got %v", err)
	}
}

func TestLogLevel(t *testing.T) {
	for _, c := range []struct {
		e    Event
		want slog.Level
	}{
		{Event{New: Success}, slog.LevelInfo}, {Event{New: FailureState}, slog.LevelError},
		{Event{New: Reverted}, slog.LevelWarn},
		{Event{Atom: "a", New: Success}, slog.LevelDebug}, {Event{Atom: "a", New: FailureState}, slog.LevelWarn},
		{Event{Atom: "a", New: RevertFailure}, slog.LevelError},
		{Event{Atom: "a", New: Running, Within: TriedAgain}, slog.LevelWarn},
		{Event{Atom: "a", New: Reverting, Within: Progressed}, slog.LevelDebug},
	} {
		if got := LogLevel(c.e); got != c.want {
			t.Errorf("%+v: %s, want %s", c.e, got, c.want)
		}
	}
}

// tally is a Meter that records its calls.
type tally struct{ lines []string }

func (m *tally) Changed(c Changed) {
	m.lines = append(m.lines, fmt.Sprintf("%s/%s %s>%s %s %s", c.Flow, c.Atom, c.From, c.To, c.Took, c.Cause))
}

func (m *tally) TriedAgain(a Again) {
	m.lines = append(m.lines, fmt.Sprintf("%s/%s again in %s %s", a.Flow, a.Atom, a.Pause, a.Cause))
}

func TestMetering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &tally{}
		a := failsTimes("a", 1)
		a.Attempts = Attempts{Max: 2, First: 5 * time.Second, Jitter: -1}
		r := rigged(t, Linear("f", a, fails("b")), Options{Listeners: []Listener{Metering(m)}})
		r.run(t, Reverted)
		want := []string{"f/ PENDING>RUNNING 0s ", "f/a PENDING>RUNNING 0s ", "f/a again in 5s errors.errorString",
			"f/a RUNNING>SUCCESS 5s ", "f/b PENDING>RUNNING 0s ",
			"f/b RUNNING>FAILURE 0s errors.errorString", "f/b FAILURE>REVERTING 0s ", "f/b REVERTING>REVERTED 0s ", "f/a SUCCESS>REVERTING 0s ", "f/a REVERTING>REVERTED 0s ",
			"f/ RUNNING>REVERTED 5s "}
		if diff := cmp.Diff(want, m.lines); diff != "" {
			t.Errorf("reported (-want +got):\n%s", diff)
		}
	})
}

// TestCaptureAwaits: it finds past and future events, and has a time limit.
func TestCaptureAwaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rigged(t, Linear("f", Sleep("s", time.Second), gives("a", 1)), Options{})
		done := r.running(t.Context())
		r.await(t, "a", Success)
		r.await(t, "f", Running)
		<-done
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := r.heard.Await(ctx, reached("a", Reverted)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}
