package archive

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/app/archive/sign"
	"github.com/stagepost/stagepost/edge/storage"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// flakyLocation is a directory that stores nothing in the first attempts of a job.
type flakyLocation struct {
	storage.Location
	attempt func() error
}

func (f flakyLocation) Put(
	ctx context.Context, key string, src io.ReaderAt, c storage.Content, p *storage.Progress,
) error {
	if strings.Contains(key, "/") { // not the file that names the location
		if err := f.attempt(); err != nil {
			return err
		}
	}
	return f.Location.Put(ctx, key, src, c, p)
}

// flakySigner is an authority that is busy in the first attempts of a job.
type flakySigner struct {
	stamps
	attempt func() error
}

func (f *flakySigner) Sign(ctx context.Context, d sign.Document) (sign.Result, error) {
	if err := f.attempt(); err != nil {
		return sign.Result{}, err
	}
	return f.stamps.Sign(ctx, d)
}

// flaws are the systems that fail, with the phase that fails and how a job is made that uses them.
var flaws = map[string]struct {
	phase lifecycle.State
	plan  func(t *testing.T, b *backups, fails int) func(*Options)
}{
	"source": {ActivityArchiving, func(_ *testing.T, b *backups, fails int) func(*Options) {
		b.onFetch = func() func(string, string) {
			fail := attempts(fails, errBusy)
			return func(string, string) {
				b.mu.Lock()
				defer b.mu.Unlock()
				if delete(b.failures, "1/item-0"); fail() != nil {
					b.failures["1/item-0"] = errBusy
				}
			}
		}()
		return func(o *Options) { o.Sources = b }
	}},
	"backup": {BackupCollection, func(_ *testing.T, b *backups, fails int) func(*Options) {
		b.fails[fetchCall] = attempts(fails, errBusy)
		return func(o *Options) { o.Sources = b }
	}},
	"location": {Store, func(t *testing.T, b *backups, fails int) func(*Options) {
		return func(o *Options) {
			var targets []copies.Target
			for _, name := range []string{"near", "far"} {
				d, err := storage.OpenDir(filepath.Join(o.Dir, name), storage.Local)
				if err != nil {
					t.Fatal(err)
				}
				targets = append(targets, copies.Target{Name: name, At: d})
			}
			busy := &storage.Error{Location: "far", Op: "put", Err: errBusy.Err, Transient: true}
			targets[1].At = flakyLocation{targets[1].At, attempts(fails, busy)}
			s, err := copies.New(copies.Options{Catalog: o.Catalog, Targets: targets})
			if err != nil {
				t.Fatal(err)
			}
			o.Copies, o.Sources = s, b
		}
	}},
	"authority": {Signing, func(_ *testing.T, b *backups, fails int) func(*Options) {
		return func(o *Options) {
			o.Sources = b
			o.Signer = &flakySigner{attempt: attempts(fails, &sign.FailedError{
				Subject: "seal", Errs: []error{errBusy}, Transient: true,
			})}
		}
	}},
}

// TestFlakyAttempts: a source, its backups, a location or an authority fails in k attempts at a phase. Below the limit
// the job goes through RecoverableError k times, its record counts the attempts, and it completes. At the limit it ends
// in Failure after ErrorHandling and Cleanup, and nothing of it remains.
func TestFlakyAttempts(t *testing.T) {
	const most = 3
	for name, flaw := range flaws {
		for _, fails := range []int{0, 1, most - 1, most} {
			t.Run(fmt.Sprintf("%s %d", name, fails), func(t *testing.T) {
				b, yes := newBackups(newFake(1, 1)), true
				bubble(t, b.fake, flaw.plan(t, b, fails), func(h *harness) {
					began := time.Now()
					j := h.end(h.submit(Request{Settings: Settings{Attempts: most, CourseBackup: &yes}}).ID)
					h.attempted(&j, flaw.phase, fails, most)
					if fails < most {
						if wrong := h.stored(&j, h.options.Dir); j.State != Completed || len(wrong) > 0 {
							t.Errorf("got %s: %v", j.State, wrong)
						}
					} else {
						h.reverted(&j)
					}
					if pauses := []time.Duration{0, 30 * time.Second, 90 * time.Second}[min(fails, most-1)]; time.
						Since(began) < pauses {
						t.Errorf("it took %s, want pauses of %s", time.Since(began), pauses)
					}
					if b.made["-1"] != 1 || len(b.made) != 1 {
						t.Errorf("backups: %v", b.made)
					}
				})
			})
		}
	}
}

// attempted checks the failed attempts in the history and in the record of a job.
func (h *harness) attempted(j *job.Job, phase lifecycle.State, fails, most int) {
	h.t.Helper()
	history, err := h.store.History(h.t.Context(), j.ID, 0, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	var got, want []string
	for _, e := range history {
		switch e.Event {
		case ErrorEvent, Recover, Retry, Fail:
			got = append(got, fmt.Sprintf("%s to %s", e.Event, e.To))
		}
	}
	for n := 1; n <= fails; n++ {
		want = append(want, fmt.Sprintf("error to %s", Error))
		if n < most {
			want = append(want, fmt.Sprintf("recover to %s", RecoverableError), fmt.Sprintf("retry to %s", phase))
		} else {
			want = append(want, fmt.Sprintf("fail to %s", ErrorHandling), fmt.Sprintf("fail to %s", Failure))
		}
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		h.t.Errorf("got  %v\nwant %v", got, want)
	}
	var d data
	if err := decode(j.Data, &d); err != nil {
		h.t.Fatal(err)
	}
	counts := map[lifecycle.State]int{}
	for _, f := range d.Errors {
		counts[f.Phase]++
		if f.Attempt != counts[f.Phase] || f.Class != Recoverable || f.Message == "" {
			h.t.Errorf("attempt %d: %+v", counts[f.Phase], f)
		}
	}
	if fails == most && phase == Store && counts[ErrorHandling] == 3 { // the location is down: its rest remains
		delete(counts, ErrorHandling)
	}
	if want := map[lifecycle.State]int{phase: fails}; fails > 0 && !maps.Equal(counts, want) {
		h.t.Errorf("got %v failures, want %v", counts, want)
	}
}

// reverted checks a job that failed: ErrorHandling and Cleanup did their work, and what a location kept that was down
// is removed when it can be used again.
func (h *harness) reverted(j *job.Job) {
	h.t.Helper()
	if j.State != Failure || j.Outcome != lifecycle.Failed {
		h.t.Errorf("got %s (%s)", j.State, j.Outcome)
	}
	time.Sleep(time.Minute)
	for _, location := range []string{"near", "far"} {
		if err := h.options.Copies.Tidy(h.t.Context(), location); err != nil {
			h.t.Error(err)
		}
	}
	h.gone(h.options.Dir, string(j.ID))
	tasks, err := h.store.Tasks(h.t.Context(), j.ID)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, one := range tasks {
		if !TaskLife.Ended(one.State) {
			h.t.Errorf("%s is %s", one.Name, one.State)
		}
	}
	all, err := h.options.Catalog.Copies(h.t.Context(), string(j.ID), "")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, c := range all {
		if c.Deleted.IsZero() {
			h.t.Errorf("the catalog has the copy %s in %s", c.Of.Path, c.Location)
		}
	}
}

// TestDeadlineInEachPhase: the deadline of a job whose phase keeps failing ends it in Timeout after ErrorHandling and
// Cleanup, and nothing moves it from there.
func TestDeadlineInEachPhase(t *testing.T) {
	for name, flaw := range flaws {
		t.Run(name, func(t *testing.T) {
			b, yes := newBackups(newFake(1, 1)), true
			bubble(t, b.fake, flaw.plan(t, b, 99), func(h *harness) {
				j := h.end(h.submit(Request{Settings: Settings{
					Attempts: 100, CourseBackup: &yes, Deadline: "1h",
				}}).ID)
				history, err := h.store.History(h.t.Context(), j.ID, 0, 0)
				if err != nil {
					t.Fatal(err)
				}
				var states []lifecycle.State
				for _, e := range history[len(history)-3:] {
					states = append(states, e.To)
				}
				want := []lifecycle.State{ErrorHandling, Cleanup, Timeout}
				if !slices.Equal(states, want) || j.Outcome != lifecycle.TimedOut {
					t.Errorf("it ends by %v (%s)", states, j.Outcome)
				}
				if got := strings.Count(h.events(j.ID), "error recover"); got < 5 {
					t.Errorf("%d attempts", got)
				}
				for _, event := range []lifecycle.Event{Retry, Cancel} {
					act := operator.Act{Job: j.ID, Event: event, By: lifecycle.Operator, Actor: "ann"}
					if _, err := h.engine.Do(h.t.Context(), act); err == nil {
						t.Errorf("%s is accepted", event)
					}
				}
				time.Sleep(2 * time.Hour)
				after, err := h.store.Get(h.t.Context(), j.ID)
				if err != nil || after.State != Timeout || after.Version != j.Version {
					t.Errorf("it became %s, %v", after.State, err)
				}
				for _, location := range []string{"near", "far"} {
					if all := digests(t, filepath.Join(h.options.Dir, location)); len(all) > 1 {
						t.Errorf("%s has %v", location, all)
					}
				}
			})
		})
	}
}
