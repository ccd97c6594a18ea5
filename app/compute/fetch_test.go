package compute_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// badCRC damages the data of the first entry of a ZIP.
func badCRC(text []byte) []byte {
	r, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		panic(err)
	}
	at, _ := r.File[0].DataOffset()
	text[at+2] ^= 0xff
	return text
}

// TestBadResults: results that are not whole complete no job, and change no bad ending; what could be had is kept
// (holes J9, J11). The control is the same job with whole results.
func TestBadResults(t *testing.T) {
	whole := func(b []byte) []byte { return b }
	for _, c := range []struct {
		name   string
		broken func([]byte) []byte
		change func(*compute.Options)
		ok     bool
	}{
		{"whole", whole, func(*compute.Options) {}, true},
		{"cut", cut, func(*compute.Options) {}, false},
		{"bad CRC", badCRC, func(*compute.Options) {}, false},
		{"no ZIP", func(b []byte) []byte {
			return bytes.Repeat([]byte("x"), len(b))
		}, func(*compute.Options) {}, false},
		{"longer", func(b []byte) []byte { return append(b, 0) }, func(*compute.Options) {}, false},
		{"too large", whole, func(o *compute.Options) { o.MaxResults = 100 }, false},
	} {
		for _, bad := range []bool{false, true} {
			runInBubble(t, c.name, func(t *testing.T) {
				f := newFake()
				f.auto, f.broken = false, c.broken
				f.unsure = c.name == "bad CRC" // the agent gives no digest: only the ZIP itself can report
				o := quick(t)
				o.Poll = time.Millisecond
				c.change(&o)
				w := newHarness(t, o, one(notifier{f}))
				j := w.upload("ada", hello)
				w.until(j.ID, compute.Running)
				state, cause, ending := compute.Failed, compute.CauseResults, (*compute.Ending)(nil)
				if c.ok {
					state, cause = compute.Completed, ""
				}
				if bad {
					ending = &compute.Ending{Exit: 3, Cause: compute.CauseExit, Sentence: "exit 3"}
					state, cause = compute.Failed, compute.CauseExit
				}
				f.finish(j.ID, ending)
				got := w.until(j.ID, compute.Completed, compute.Failed)
				if got.State != state || got.Cause != cause {
					t.Errorf("%s by %q: %s", got.State, got.Cause, got.Message)
				}
				d, _ := compute.DataOf(&got)
				if !c.ok && c.name != "too large" && (d.Results == nil || !d.Results.Partial) {
					t.Errorf("what could be had is not kept: %+v", d.Results)
				}
			})
		}
	}
}

// TestSilentWithResults: an agent that is gone permanently with the results leaves the ending that it reported.
func TestSilentWithResults(t *testing.T) {
	for _, e := range []*compute.Ending{nil, {Exit: 3, Cause: compute.CauseExit, Sentence: "exit 3"}} {
		runInBubble(t, fmt.Sprint("ended badly ", e != nil), func(t *testing.T) {
			f := newFake()
			f.auto = false
			f.fault = func(call string, _ compute.Ticket) error {
				if call == "results" || call == "partial" {
					f.down = errors.New("no route to host")
					return f.down
				}
				return nil
			}
			o := quick(t)
			o.Poll, o.Lost = 20*time.Millisecond, 50*time.Millisecond
			w := newHarness(t, o, one(notifier{f}))
			j := w.upload("ada", hello)
			w.until(j.ID, compute.Running)
			f.finish(j.ID, e)
			got, want := w.until(j.ID, compute.Failed), compute.CauseResults
			if e != nil {
				want = compute.CauseExit
			}
			if got.Cause != want {
				t.Errorf("it failed by %q (%s), want %q", got.Cause, got.Message, want)
			}
		})
	}
}

// TestStalledResults: a transfer in which nothing moves is abandoned, and the next one has the results.
func TestStalledResults(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake()
		o := quick(t)
		o.Stall, o.Poll = 30*time.Millisecond, time.Millisecond
		x := &stalling{fake: f, left: 2}
		w := newHarness(t, o, one(x))
		if j := w.until(w.upload("ada", hello).ID, compute.Completed, compute.Failed); j.State != compute.Completed ||
			x.left != 0 {
			t.Errorf("%s by %s: %s", j.State, j.Cause, j.Message)
		}
	})
}

// stalling gives the beginning of results, and then nothing more.
type stalling struct {
	*fake
	left int
}

func (s *stalling) Results(ctx context.Context, h compute.Handle) (io.ReadCloser, error) {
	if s.left == 0 {
		return s.fake.Results(ctx, h)
	}
	s.left--
	r, w := io.Pipe()
	go func() { _, _ = w.Write([]byte("PK")) }()
	return r, nil
}

// TestRetention: files go after Keep, in two steps, and only those of jobs that ended; records stay; a download that
// began goes on to its end (holes J13, J14, J16).
func TestRetention(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := quick(t)
		o.Keep = 10 * time.Second
		f := newFake()
		w := newHarnessOn(t, mem.New(), o, one(f), func(e *engine.Options) { e.Retain.Every = 10 * time.Millisecond })
		j := w.until(w.upload("ada", hello).ID, compute.Completed)
		f.mu.Lock()
		f.auto = false
		f.mu.Unlock()
		running := w.upload("ada", hello)
		w.until(running.ID, compute.Running)
		file, r, err := w.app.Results(&j)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		time.Sleep(o.Keep - time.Second)
		if now, err := w.store.Get(t.Context(), j.ID); err != nil || now.State != compute.Completed {
			t.Errorf("early it is %s, %v", now.State, err)
		}
		cleaned := w.until(j.ID, compute.Cleaned)
		eventually(t, "its files are gone", func() bool {
			_, err := os.Stat(filepath.Join(o.Dir, "compute", compute.DirOf(j.ID)))
			return errors.Is(err, fs.ErrNotExist)
		})
		if text, err := io.ReadAll(file); err != nil || int64(len(text)) != r.Bytes {
			t.Errorf("a download that began is cut: %d of %d bytes, %v", len(text), r.Bytes, err)
		}
		gone(t, w.app, j, cleaned)
		if r, err := w.store.Get(t.Context(), running.ID); err != nil || r.State != compute.Running {
			t.Errorf("a job that runs is %s, %v", r.State, err)
		}
		if _, err := w.app.Input(&running, compute.Script); err != nil {
			t.Errorf("the files of a job that runs: %v", err)
		}
	})
}

// gone checks that nothing of a cleaned job is given, whichever record of it is asked for.
func gone(t *testing.T, app *compute.App, j, cleaned job.Job) {
	t.Helper()
	for name, r := range map[string]job.Job{"as it is": cleaned, "as it was": j} {
		if _, _, err := app.Results(&r); job.KindOf(err) != job.Gone {
			t.Errorf("results of the record %s: %v", name, err)
		}
		if _, err := app.Input(&r, compute.Script); job.KindOf(err) != job.Gone {
			t.Errorf("inputs of the record %s: %v", name, err)
		}
	}
	if _, err := app.Log(t.Context(), &cleaned, "stdout", 0, false); job.KindOf(err) != job.Gone {
		t.Errorf("its log: %v", err)
	}
	if _, err := app.Repeat(t.Context(), j.ID, nil); job.KindOf(err) != job.Gone {
		t.Errorf("repeated: %v", err)
	}
}
