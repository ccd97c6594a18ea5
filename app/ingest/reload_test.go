package ingest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

const livelyText = "id: lively\ncollection: maps\nsuppress: full\nallow_networks: [127.0.0.0/8]\n"

// lively is a harness whose profiles are read from a directory.
type lively struct {
	*harness
	dir string
}

func startLively(t *testing.T) lively {
	t.Helper()
	l := lively{dir: t.TempDir()}
	l.harness = &harness{t: t}
	l.put(livelyText)
	live, err := profile.Open(l.dir, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	o := options(t, t.TempDir())
	o.Profiles = live
	l.harness = startOn(t, mem.New(), o)
	return l
}

func (l lively) put(text string) {
	l.t.Helper()
	name := filepath.Join(l.dir, ".lively.tmp")
	if err := errors.Join(os.WriteFile(name, []byte(text), 0o600),
		os.Rename(name, filepath.Join(l.dir, "lively.yaml"))); err != nil {
		l.t.Fatal(err)
	}
}

func (l lively) reload() profile.Change {
	l.t.Helper()
	c, err := l.ReloadProfiles(l.t.Context(), "op", "test")
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

// TestRemovedProfileKeepsItsJobsWaiting: they wait under a code of their own, and go on at once when it comes back.
func TestRemovedProfileKeepsItsJobsWaiting(t *testing.T) {
	l := startLively(t)
	stop := job.Scope{Kind: record.JobKind, State: record.Storing}
	if _, err := l.e.Operator().Hold(t.Context(), stop, "op", "test", time.Time{}); err != nil {
		t.Fatal(err)
	}
	b := l.submit(Submission{Profile: "lively", Filename: "f.txt"}, "text")
	j := l.children(b.ID, 1)[0]
	l.until(j.ID, func(j *job.Job) bool { return j.State == record.Storing })
	if err := os.Remove(filepath.Join(l.dir, "lively.yaml")); err != nil {
		t.Fatal(err)
	}
	l.reload()
	if _, err := l.e.Operator().Release(t.Context(), stop, "op", "over"); err != nil {
		t.Fatal(err)
	}
	l.until(j.ID, func(j *job.Job) bool { return j.Cause == causeProfile && !j.Claimed() })
	waiting, err := l.store.Get(t.Context(), j.ID)
	if err != nil || waiting.State != record.Storing || waiting.Due.Sub(l.e.Clock().Now()) < 40*time.Second {
		t.Errorf("control: without a nudge it would wait: got %s until %s, %v", waiting.State, waiting.Due, err)
	}
	why, err := explain.New(l.e).Why(t.Context(), j.ID, time.Time{})
	if err != nil || len(why.Blockers) == 0 || why.Blockers[0].Code != causeProfile {
		t.Errorf("got %+v, %v", why.Blockers, err)
	}
	l.put(livelyText)
	l.reload()
	if j := l.end(j.ID); j.State != record.Completed {
		t.Errorf("got %s: %s", j.State, j.Message)
	}
}

// TestReloadIsSeenByTheNextAttempt: what a profile allows now counts, not what it allowed when its first job came.
func TestReloadIsSeenByTheNextAttempt(t *testing.T) {
	l := startLively(t)
	s := newSite(t, map[string]string{"a.txt": "alpha"})
	l.put(strings.Replace(livelyText, "127.0.0.0/8", "10.0.0.0/8", 1))
	l.reload()
	sub := Submission{Profile: "lively", Filename: "m.checkm"}
	r := l.ingest(sub, s.manifest("a.txt"))
	if r.Jobs[0].Cause != CauseRefused {
		t.Fatalf("control: got %s", r.Text())
	}
	l.put(livelyText)
	if c := l.reload(); c.String() != "changed lively" {
		t.Errorf("got %s", &c)
	}
	if err := l.do(r.Jobs[0].Job, record.Retry); err != nil {
		t.Fatal(err)
	}
	if j := l.end(r.Jobs[0].Job); j.State != record.Completed {
		t.Errorf("got %s: %s", j.State, j.Message)
	}
}

// TestBrokenProfilesChangeNothing: the error names the position, the profiles stay, and the audit list has both what
// was done and what was refused.
func TestBrokenProfilesChangeNothing(t *testing.T) {
	l := startLively(t)
	l.put(livelyText + "colour: red\n")
	_, err := l.ReloadProfiles(t.Context(), "ann", "manually")
	if job.KindOf(err) != job.Refused || !strings.Contains(err.Error(), "lively.yaml:5:1: colour") {
		t.Errorf("got %v", err)
	}
	if s, ok := l.ProfileStatus(); !ok || !strings.Contains(s.Fault, "lively.yaml:5:1") {
		t.Errorf("got %+v", s)
	}
	if p, err := l.Profile("lively"); err != nil || p.Collection != "maps" {
		t.Errorf("got %+v, %v", p, err)
	}
	if _, err := l.Profile("none"); job.KindOf(err) != job.NotFound {
		t.Errorf("got %v", err)
	}
	l.put(livelyText)
	l.reload()
	if s, ok := l.ProfileStatus(); !ok || s.Fault != "" {
		t.Errorf("got %+v", s)
	}
	var refused, taken bool
	for _, a := range l.audit() {
		refused = refused || a.Event == "profile-reload" && a.Actor == "ann" && a.Note == "manually" &&
			strings.HasPrefix(a.Object, "refused: ") && strings.Contains(a.Object, "lively.yaml:5:1")
		taken = taken || a.Event == "profile-reload" && a.Actor == "op" && a.Object == "nothing changed"
	}
	if !refused || !taken {
		t.Errorf("got %+v", l.audit())
	}
}

// TestProfilesThatDoNotChange: a set that was made by a program cannot be read again.
func TestProfilesThatDoNotChange(t *testing.T) {
	w := start(t)
	if _, err := w.ReloadProfiles(t.Context(), "op", ""); job.KindOf(err) != job.Refused {
		t.Errorf("got %v", err)
	}
	if _, ok := w.ProfileStatus(); ok {
		t.Error("it has a status")
	}
}

// TestReloadWhileJobsRun takes the profile away, changes it and puts it back, again and again, while jobs run: each of
// them completes.
func TestReloadWhileJobsRun(t *testing.T) {
	l := startLively(t)
	s := newSite(t, map[string]string{"a.txt": "alpha"})
	text := s.manifest("a.txt")
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				l.put(livelyText)
				l.reload()
				return
			default:
			}
			switch i % 3 {
			case 0:
				l.put(livelyText + fmt.Sprintf("description: number %d\n", i))
			case 1:
				l.put("id: other\n")
			case 2:
				l.put(livelyText)
			}
			l.reload()
		}
	})
	var batches []job.ID
	for i := 0; len(batches) < 20; i++ {
		b, err := l.Submit(t.Context(), Submission{Profile: "lively", Submitter: "ann", Filename: "m.checkm"},
			strings.NewReader(text))
		if job.KindOf(err) == job.Invalid { // no such profile just now
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		batches = append(batches, b.ID)
	}
	close(stop)
	all.Wait()
	for _, id := range batches {
		if b := l.end(id); b.State != record.Completed {
			t.Errorf("got %s: %s", b.State, b.Message)
		}
	}
}
