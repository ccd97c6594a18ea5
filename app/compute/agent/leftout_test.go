package agent

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/sandbox"
)

// leaves is a play that leaves a pipe, links and a file that has a name of ours; fine leaves nothing but a file.
func leaves(fine bool) func(context.Context, *sandbox.Command) (sandbox.Ending, error) {
	return func(_ context.Context, c *sandbox.Command) (sandbox.Ending, error) {
		err := os.WriteFile(filepath.Join(c.Dir, "made.txt"), []byte("made"), 0o644)
		if fine {
			return sandbox.Ending{}, err
		}
		return sandbox.Ending{}, errors.Join(err, syscall.Mkfifo(filepath.Join(c.Dir, "pipe"), 0o644),
			os.Symlink("/etc/passwd", filepath.Join(c.Dir, "out")),
			os.Symlink("../../x", filepath.Join(c.Dir, "up")), os.WriteFile(filepath.Join(c.Dir, "exit.json"),
				[]byte(`{"exit_code":0,"skipped":99}`), 0o644))
	}
}

// TestWhatWasLeftOut is reported by the notice, over HTTP and after a restart, and by exit.json in the results. Nothing
// is reported of a payload that left nothing odd.
func TestWhatWasLeftOut(t *testing.T) {
	for name, want := range map[string]compute.LeftOut{
		"fine": {},
		"odd":  {Skipped: 3, Reasons: map[string]int{"fifo": 1, "link": 2}, Renamed: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newHarness(t, leaves(name == "fine"), nil)
			tk := ticket()
			w.submit(w.app, parcel(tk, "true"))
			check := func(when string, n compute.Notice) {
				got := n.LeftOut
				names := len(got.Names)
				if got.Names = nil; names != want.Skipped+want.Renamed {
					t.Errorf("%s: %d names", when, names)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: %s", when, diff)
				}
			}
			check("at its end", w.end(tk))
			remote, _ := w.remote(HandlerOptions{})
			far, err := remote.Query(t.Context(), handle(tk))
			if err != nil {
				t.Fatal(err)
			}
			check("over HTTP", far)
			r, err := w.app.Results(t.Context(), handle(tk))
			var inside compute.LeftOut
			files := unzip(t, r, err)
			if err := json.Unmarshal([]byte(files["exit.json"]), &inside); err != nil {
				t.Fatalf("exit.json %q: %v", files["exit.json"], err)
			}
			check("in exit.json", compute.Notice{LeftOut: inside})
			if name == "odd" && !strings.Contains(files["exit.json~1"], "99") {
				t.Errorf("the payload's own exit.json: %q", files["exit.json~1"])
			}
			w.stop()
			w.start(nil)
			check("after a restart", w.end(tk))
		})
	}
}

// TestSentenceOfStopped: a payload that is ended because its agent stops reports it, whether its script ends by a
// signal or with 0, and also when only the next start concludes it from exit.json. One that is left alone ends well:
// that is the control.
func TestSentenceOfStopped(t *testing.T) {
	for _, stops := range []bool{true, false} {
		begun, release := make(chan *sandbox.Command, 1), make(chan struct{})
		w := newHarness(t, func(ctx context.Context, c *sandbox.Command) (sandbox.Ending, error) {
			begun <- c
			select {
			case <-ctx.Done():
				return sandbox.Ending{Exit: 0, Cause: sandbox.Killed, Sentence: "the command was ended from outside"},
					nil
			case <-release:
				return sandbox.Ending{Sentence: "the command ended well"}, nil
			}
		}, nil)
		tk := ticket()
		w.submit(w.app, parcel(tk, "true"))
		<-begun
		if stops {
			w.stop() // without Halt: the next start finishes it
			w.start(nil)
		} else {
			close(release)
		}
		n := w.end(tk)
		e := n.Ending
		if e == nil || e.Sentence == "" {
			t.Fatalf("stops %t: it ended as %+v", stops, e)
		}
		if got := e.Cause == CauseStopped && e.Exit == -1 &&
			strings.Contains(e.Sentence, "the agent was stopped while it ran"); got != stops {
			t.Errorf("stops %t: it ended as %+v", stops, e)
		}
		r, err := w.app.Results(t.Context(), handle(tk))
		if text := unzip(t, r, err)["exit.json"]; !strings.Contains(text, `"sentence":"`) {
			t.Errorf("exit.json has %s", text)
		}
	}
}
