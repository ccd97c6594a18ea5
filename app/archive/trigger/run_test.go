package trigger

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
)

// nightly is a schedule of all courses.
func nightly() Schedule { return Schedule{Source: "campus", Cron: "0 2 * * *", TimeZone: "UTC"} }

// TestRunArchivesWhatChanged: a run starts a job for each course with missing or changed activities, and states its
// reasons. A dry run starts none. A schedule of what did not change archives it again.
func TestRunArchivesWhatChanged(t *testing.T) {
	bubble(t, func(h *harness) {
		h.setSchedule("nightly", nightly())
		j, r := h.byHand("nightly", true)
		const first = "[51 ARCHIVE 52 ARCHIVE 59 IGNORE 61 ARCHIVE 69 IGNORE]"
		if marks(r) != first || len(h.archives()) != 0 || !strings.Contains(j.Message, "dry run: 3 activities") {
			t.Fatalf("dry run: %s, %d jobs, %s", marks(r), len(h.archives()), j.Message)
		}
		j, r = h.byHand("nightly", false)
		if marks(r) != first || r.Started != 2 || !strings.HasPrefix(j.Message, "2 archive jobs started for 3 activities") {
			t.Fatalf("first run: %s, %s", marks(r), j.Message)
		}
		for _, id := range r.Jobs {
			if one := h.end(id); one.State != archive.Completed || one.Owner != "schedule/nightly" {
				t.Fatalf("%s of %s: %s", one.State, one.Owner, one.Message)
			}
		}
		h.fake.set("5", "52", "changed")
		_, r = h.byHand("nightly", false)
		if marks(r) != "[51 SKIP 52 ARCHIVE 59 IGNORE 61 SKIP 69 IGNORE]" || r.Started != 1 {
			t.Fatalf("second run: %s", marks(r))
		}
		h.end(r.Jobs[0])
		s := nightly()
		s.ArchiveUnchanged, s.Categories = true, []string{"1"}
		h.setSchedule("nightly", s)
		if _, r = h.byHand("nightly", false); marks(r) != "[61 FORCE 69 IGNORE]" {
			t.Fatalf("of a category: %s", marks(r))
		}
	})
}

// TestRunSkipsUnfinished: an activity that a job archives at that time gets no second job. When it has ended, it does.
func TestRunSkipsUnfinished(t *testing.T) {
	for _, whole := range []bool{true, false} {
		bubble(t, func(h *harness) {
			s := nightly()
			s.ArchiveUnchanged = true
			h.setSchedule("nightly", s)
			q := archive.Request{Source: "campus", Course: "5", Activities: []string{"51"}}
			if whole {
				q.Activities = nil
			}
			h.fake.mu.Lock()
			h.fake.broken["51"] = &source.Error{Op: "fetch", Err: errors.New("busy"), Transient: true}
			h.fake.mu.Unlock()
			yes := 5
			q.Settings.Attempts = yes // it stays in RecoverableError
			busy, err := h.archive.Submit(t.Context(), q, archive.Ordered{Owner: "ann"})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			want := "[51 SKIP 52 ARCHIVE 59 IGNORE 61 ARCHIVE 69 IGNORE]"
			if whole {
				want = "[51 SKIP 52 SKIP 59 IGNORE 61 ARCHIVE 69 IGNORE]"
			}
			_, r := h.byHand("nightly", true)
			if marks(r) != want || !strings.Contains(r.Decisions[0].Reason, string(busy.ID)) {
				t.Errorf("while it runs: %s, %s", marks(r), r.Decisions[0].Reason)
			}
			h.fake.mu.Lock()
			clear(h.fake.broken)
			h.fake.mu.Unlock()
			h.end(busy.ID)
			if _, r = h.byHand("nightly", true); r.Decisions[0].Mark != MarkForce {
				t.Errorf("after it: %s", marks(r))
			}
		})
	}
}

// failing counts the jobs of a schedule that has 12 runs in an hour, over some hours, for an activity whose archive
// always fails.
func failing(h *harness, hours int, backoff string) (jobs int) {
	h.fake.broken["51"] = &source.Error{Op: "fetch", Err: errors.New("broken"), Transient: false}
	s := nightly()
	s.Cron, s.Backoff, s.Courses = "*/5 * * * *", backoff, []string{"5"}
	h.setSchedule("often", s)
	defer h.schedule(h.App)()
	time.Sleep(time.Duration(hours)*time.Hour + time.Minute)
	synctest.Wait()
	for _, j := range h.archives() {
		for _, id := range decoded[archive.Request](h.t, j.Spec).Activities {
			if id == "51" {
				jobs++
			}
		}
	}
	return jobs
}

// seenWaiting checks that the pause of activity 51, which failed four times, is in the list of schedules and in the
// explanation of a run: until when, how many failures, and why.
func seenWaiting(h *harness, r Record) {
	h.t.Helper()
	w := r.Decisions[0].Wait
	if r.Waiting != 1 || w == nil || w.Failures != 4 || !w.Until.Equal(w.Last.Add(8*time.Hour)) ||
		!strings.Contains(w.Cause, "broken") || r.Decisions[1].Wait != nil {
		h.t.Errorf("the record has %d, %+v", r.Waiting, w)
	}
	all, err := h.Statuses(h.t.Context())
	if err != nil || len(all) != 1 || len(all[0].Waiting) != 1 {
		h.t.Fatalf("the list has %+v, %v", all, err)
	}
	if l := all[0].Waiting[0]; w == nil || l.Activity != "51" || l.Course != "5" || l.Failures != 4 ||
		!l.Next.Equal(w.Until) || l.Cause != w.Cause {
		h.t.Errorf("the list has %+v", l)
	}
	s := nightly()
	s.Courses = []string{"6"}
	h.setSchedule("other", s)
	if all, err = h.Statuses(h.t.Context()); err != nil || len(all) != 2 || len(all[1].Waiting) != 0 {
		h.t.Errorf("control: a schedule of another course: %+v, %v", all, err)
	}
	x, err := explain.New(h.engine).Why(h.t.Context(), all[0].Last.ID, time.Time{})
	if err != nil || len(x.Blockers) != 1 {
		h.t.Fatalf("got %+v, %v", x, err)
	}
	b := x.Blockers[0]
	for _, want := range []string{
		"dry run: 0 activities", "activity 51 of course 5 failed 4 times", "broken", stamp(w.Until),
	} {
		if !strings.Contains(b.Sentence, want) {
			h.t.Errorf("why does not have %q: %s", want, b.Sentence)
		}
	}
	if n := len(b.Remedies); n == 0 || b.Remedies[n-1].Command != "stagepost archive schedules show often" {
		h.t.Errorf("why has %+v", b.Remedies)
	}
}

// TestFailingActivityPauses (B15): an activity that always fails gets no new job at each run, but after pauses that
// double. The other activities of its course are archived without it. Changed content is tried at once. The control has
// a short pause.
func TestFailingActivityPauses(t *testing.T) {
	bubble(t, func(h *harness) {
		if n := failing(h, 8, "1h"); n != 4 { // after 0, 1, 3 and 7 hours
			t.Errorf("%d jobs in 8 hours", n)
		}
		if runs := h.runs("often"); len(runs) != 8*12 {
			t.Errorf("%d runs", len(runs))
		}
		_, r := h.byHand("often", true)
		if marks(r) != "[51 SKIP 52 SKIP 59 IGNORE]" || !strings.Contains(r.Decisions[0].Reason, "next attempt") ||
			!strings.Contains(r.Decisions[1].Reason, "did not change") {
			t.Errorf("%s: %+v", marks(r), r.Decisions)
		}
		seenWaiting(h, r)
		h.fake.set("5", "51", "changed")
		if _, r = h.byHand("often", true); r.Decisions[0].Mark != MarkArchive {
			t.Errorf("changed: %s", marks(r))
		}
	})
	bubble(t, func(h *harness) {
		if n := failing(h, 1, "1m"); n < 5 {
			t.Errorf("control: %d jobs in an hour", n)
		}
	})
}

// TestRunGoesOnAfterBadCourse: a course that does not exist, or stays unreadable, is recorded and does not keep the
// others.
func TestRunGoesOnAfterBadCourse(t *testing.T) {
	bubble(t, func(h *harness) {
		s := nightly()
		s.Courses = []string{"404", "5", "6"}
		h.setSchedule("nightly", s)
		h.fake.down["5"] = &source.Error{Op: "read", Err: errors.New("busy"), Transient: true}
		_, r := h.byHand("nightly", false)
		if marks(r) != "[61 ARCHIVE 69 IGNORE course 404 IGNORE course 5 IGNORE]" || r.Unread != 2 {
			t.Errorf("%s", marks(r))
		}
		if n := h.fake.reads["5"]; n < 3 {
			t.Errorf("the course was read %d times", n)
		}
		s.Source = "gone"
		h.setSchedule("nightly", s)
		if j, _ := h.byHand("nightly", false); j.State != Failed || !strings.Contains(j.Message, "gone") {
			t.Errorf("%s: %s", j.State, j.Message)
		}
	})
}

// TestRunContinuesAfterCrash: a second attempt at a run finds the job that the first one started, even though the
// source changed meanwhile, and starts no second one.
func TestRunContinuesAfterCrash(t *testing.T) {
	bubble(t, func(h *harness) {
		h.setSchedule("nightly", nightly())
		crashes := 2
		h.App.options.Jobs = submitFunc(func(r archive.Request, o archive.Ordered) (job.Job, error) {
			j, err := h.archive.Submit(t.Context(), r, o)
			if crashes--; err == nil && crashes >= 0 {
				h.fake.set("5", "53", "new")
				err = job.Errorf(job.Unavailable, "submit", "", "the answer was lost")
			}
			return j, err
		})
		_, r := h.byHand("nightly", false)
		if len(h.archives()) != 2 || r.Started != 2 || r.Counts[MarkArchive] != 3 {
			t.Errorf("%d jobs, %d started: %s", len(h.archives()), r.Started, marks(r))
		}
	})
}
