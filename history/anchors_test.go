package history

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/edge/timestamp"
)

func (f *fixture) names() (all []string) {
	f.t.Helper()
	entries, err := os.ReadDir(f.dir)
	must(f.t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// TestOneAnchorADay: rounds on one day make one anchor and one request, and a round on the next day another one.
func TestOneAnchorADay(t *testing.T) {
	f := newFixture(t)
	f.now = f.now.Truncate(24 * time.Hour)
	f.from.grow("tst_1", "create", f.now)
	for range 3 {
		must(t, f.anchors().Round(t.Context()))
		f.now = f.now.Add(7 * time.Hour)
	}
	if n := f.asked.Load(); n != 1 || len(f.names()) != 5 {
		t.Errorf("%d requests, files %v", n, f.names())
	}
	f.now = f.now.Add(7 * time.Hour)
	a := f.anchors()
	must(t, a.Round(t.Context()))
	if s := a.State(); f.asked.Load() != 2 || s.Number != 2 || s.Stamped.IsZero() || s.Expires.Before(s.Stamped) {
		t.Errorf("%d requests, %+v", f.asked.Load(), s)
	}
}

// TestCrashes ends the process before each step: a repetition makes one anchor, with one time stamp, and an export of
// it is good.
func TestCrashes(t *testing.T) {
	for _, point := range []string{"anchor", "request", "write .tsq", "write .tst", "write .pem", "write .tsr"} {
		t.Run(point, func(t *testing.T) {
			f := newFixture(t)
			f.from.grow("tst_1", "create", f.now)
			a, crash, reached := f.anchors(), errors.New("crash"), false
			a.point = func(name string) error {
				if name == point {
					reached = true
					return crash
				}
				return nil
			}
			if err := a.Round(t.Context()); !errors.Is(err, crash) || !reached {
				t.Fatalf("got %v, reached %t", err, reached)
			}
			f.from.grow("tst_1", "end", f.now)
			must(t, f.anchors().Round(t.Context()))
			if n := len(f.names()); n != 5 {
				t.Errorf("%d files: %v", n, f.names())
			}
			if r := f.verify(f.files()); r.Count != 0 || len(r.Stamps) != 1 {
				t.Errorf("%d stamps, faults %s", len(r.Stamps), faults(&r))
			}
		})
	}
}

// TestRoundsFollowEachOther: a second round of the same process begins when the first has ended. It would remove the
// file that the first is writing.
func TestRoundsFollowEachOther(t *testing.T) {
	f := newFixture(t)
	f.from.grow("tst_1", "create", f.now)
	a, reached := f.anchors(), 0
	a.point = func(name string) error {
		reached++
		if a.rounds.TryLock() {
			a.rounds.Unlock()
			t.Errorf("before %s another round could begin", name)
		}
		return nil
	}
	var rounds sync.WaitGroup
	for range 4 {
		rounds.Go(func() {
			if err := a.Round(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	rounds.Wait()
	if n := f.asked.Load(); reached == 0 || n != 1 || len(f.names()) != 5 {
		t.Errorf("%d steps, %d requests, files %v", reached, n, f.names())
	}
}

// TestTwoServers: another server makes the anchor and its time stamp between two steps of this one, as when a server
// that led went on after a pause. There is one anchor, whose files fit, and both servers know its time stamp. The
// control replaces the request by that of the other server, as a server would that writes its own one.
func TestTwoServers(t *testing.T) {
	for _, point := range []string{"anchor", "write .tsq", "request", "write .tst", "write .pem", "write .tsr"} {
		t.Run(point, func(t *testing.T) {
			f := newFixture(t)
			f.from.grow("tst_1", "create", f.now)
			a, reached := f.anchors(), false
			a.point = func(name string) error {
				if name != point || reached {
					return nil
				}
				reached = true
				f.from.grow("tst_1", "end", f.now)
				return f.anchors().Round(t.Context())
			}
			must(t, a.Round(t.Context()))
			if n := len(f.names()); n != 5 || !reached || a.State().Stamped.IsZero() {
				t.Errorf("%d files: %v, reached %t, %+v", n, f.names(), reached, a.State())
			}
			files := f.files()
			if r := f.verify(files); r.Count != 0 || len(r.Stamps) != 1 {
				t.Errorf("%d stamps, faults %s", len(r.Stamps), faults(&r))
			}
			own, err := f.by.Request(make([]byte, f.by.Hash().Size()))
			must(t, err)
			files["anchors/00000001.txt.tsq"] = string(own.DER)
			if r := f.verify(files); r.Count == 0 {
				t.Error("control: the request of another server is accepted")
			}
		})
	}
}

// TestSweep: files that a process left when it ended are removed after a day, and no earlier.
func TestSweep(t *testing.T) {
	f := newFixture(t)
	f.from.grow("tst_1", "create", f.now)
	must(t, f.anchors().Round(t.Context()))
	for name, age := range map[string]time.Duration{"a.new": 25 * time.Hour, "b.new": time.Hour, "c": 25 * time.Hour} {
		name = filepath.Join(f.dir, name)
		must(t, os.WriteFile(name, nil, 0o600))
		must(t, os.Chtimes(name, f.now, f.now.Add(-age)))
	}
	must(t, f.anchors().Round(t.Context()))
	if all := strings.Join(f.names(), " "); strings.Contains(all, "a.new") || !strings.HasSuffix(all, "b.new c") {
		t.Errorf("files: %s", all)
	}
}

// TestAuthorityDown: an authority that fails is visible and asked again; the next anchor covers what had no time stamp.
func TestAuthorityDown(t *testing.T) {
	f := newFixture(t)
	f.now = f.now.Add(-72 * time.Hour)
	start := f.now
	f.from.grow("tst_1", "create", f.now)
	f.down.Store(true)
	a := f.anchors()
	for day := range 3 {
		if err := a.Round(t.Context()); err == nil {
			t.Fatal("no error")
		}
		if all := strings.Join(a.Warnings(f.now), "\n"); !strings.Contains(all, "503") ||
			strings.Contains(all, "no time stamp since") != (day == 3) {
			t.Errorf("day %d: %s", day, all)
		}
		f.now = f.now.Add(24 * time.Hour)
	}
	f.now = start.Add(72 * time.Hour)
	if all := strings.Join(a.Warnings(f.now), "\n"); !strings.Contains(all, "no time stamp since") {
		t.Errorf("after three days: %s", all)
	}
	f.down.Store(false)
	must(t, a.Round(t.Context()))
	if all := a.Warnings(f.now); len(all) > 0 {
		t.Errorf("warnings after success: %v", all)
	}
	r := f.verify(f.files())
	if r.Count != 0 || len(r.Stamps) != 1 || r.Anchors != 4 {
		t.Errorf("%d stamps of %d anchors, faults %s", len(r.Stamps), r.Anchors, faults(&r))
	}
	files := f.files()
	files["anchors/00000002.txt"] = strings.Replace(files["anchors/00000002.txt"], "unlimited", "1h0m0s", 1)
	if r := f.verify(files); r.Count == 0 {
		t.Error("a changed anchor without a time stamp is not found")
	}
}

// TestNoAuthority: without authorities there are no anchors, and no warnings.
func TestNoAuthority(t *testing.T) {
	f := newFixture(t)
	a := New(Options{Dir: f.dir, Source: f.from, Authorities: func() []*timestamp.Authority { return nil }})
	must(t, a.Round(t.Context()))
	if _, err := os.Stat(f.dir); !errors.Is(err, fs.ErrNotExist) || a.Every() != 0 || len(a.Warnings(f.now)) > 0 {
		t.Errorf("%v, every %s, %v", err, a.Every(), a.Warnings(f.now))
	}
}

// TestAnotherSeries: after a restore the next anchor has all histories again, because numbers occur again.
func TestAnotherSeries(t *testing.T) {
	f := newFixture(t)
	f.days()
	f.from.series = "two"
	f.from.last = 7 // the entries 8 and 9 are lost
	f.from.purge("tst_4")
	f.from.past["tst_3"] = f.from.past["tst_3"][:1]
	f.from.grow("tst_5", "create", f.now)
	must(t, f.anchors().Round(t.Context()))
	f.from.grow("tst_2", "end", f.now)
	r := f.verify(f.files())
	if r.Count != 1 || !strings.Contains(faults(&r), "tst_3 2: 1 entry was removed at the end") {
		t.Errorf("only the lost entry is a fault: %s", faults(&r))
	}
}

// TestDamagedStampIsKept: evidence is not replaced.
func TestDamagedStampIsKept(t *testing.T) {
	f := newFixture(t)
	f.from.grow("tst_1", "create", f.now)
	must(t, f.anchors().Round(t.Context()))
	name := filepath.Join(f.dir, "00000001.txt.tsr")
	must(t, os.WriteFile(name, []byte("damaged"), 0o600))
	if err := f.anchors().Round(t.Context()); err == nil {
		t.Error("the damage is not reported")
	}
	if text, _ := os.ReadFile(name); string(text) != "damaged" || f.asked.Load() != 1 {
		t.Errorf("it was replaced: %q, %d requests", text, f.asked.Load())
	}
}

// TestRun makes an anchor at once, repeats a failure, and ends with its context.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rounds []time.Duration
		start := time.Now()
		ctx, stop := context.WithCancel(t.Context())
		a := New(Options{Authorities: func() []*timestamp.Authority {
			if rounds = append(rounds, time.Since(start)); len(rounds) == 4 {
				stop()
			}
			return []*timestamp.Authority{{}}
		}})
		a.o.Dir = "\x00" // each round fails
		a.Run(ctx)
		if len(rounds) != 4 || rounds[3] != 30*time.Minute {
			t.Errorf("rounds after %v", rounds)
		}
	})
}

// TestOnlyTheLeaderAnchors: there is no round while another server leads, and nothing is wrong then. A server that
// becomes the leader begins within a minute.
func TestOnlyTheLeaderAnchors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rounds int
		var leads atomic.Bool
		ctx, stop := context.WithCancel(t.Context())
		a := New(Options{Dir: "\x00", Leads: leads.Load, Authorities: func() []*timestamp.Authority {
			rounds++ // it fails, because of the directory
			return []*timestamp.Authority{{}}
		}})
		ended := make(chan struct{})
		go func() { a.Run(ctx); close(ended) }()
		time.Sleep(100 * time.Hour)
		synctest.Wait()
		if rounds > 0 {
			t.Errorf("%d rounds while another server leads", rounds)
		}
		leads.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if rounds != 1 || len(a.Warnings(time.Now())) == 0 {
			t.Errorf("%d rounds and %q as the leader", rounds, a.Warnings(time.Now()))
		}
		leads.Store(false)
		time.Sleep(100 * time.Hour)
		synctest.Wait()
		if all := a.Warnings(time.Now()); len(all) > 0 {
			t.Errorf("%q while another server leads", all)
		}
		stop()
		<-ended
	})
}
