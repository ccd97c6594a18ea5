package archivehttp_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// TestSchedules: schedules are listed by name with their next time and newest run. A dry run starts no archive job; the
// control is a run that starts some.
func TestSchedules(t *testing.T) {
	h := open(t)
	all, err := h.Client.ArchiveSchedules(t.Context())
	if err != nil || len(all) != 2 || all[0].Name != "nightly" || all[0].Next.IsZero() || all[0].Last != nil ||
		all[1].Name != "off" || !all[1].Paused || !all[1].Next.IsZero() {
		t.Fatalf("got %+v, %v", all, err)
	}
	for _, c := range []struct {
		name      string
		dry       bool
		actor, by string
		jobs      int
	}{{"off", true, "", "operator", 0}, {"nightly", false, "ann", "ann", 2}} {
		j, err := h.Client.StartSchedule(t.Context(), c.name, client.StartSchedule{DryRun: c.dry, Actor: c.actor})
		if err != nil {
			t.Fatal(err)
		}
		ended, failed := h.Await(t.Context(), j.ID, func(j *job.Job) bool { return j.Ended })
		history, err := h.Engine.Store().History(t.Context(), j.ID, 0, 1)
		if err != nil || len(history) != 1 || history[0].Actor != c.by {
			t.Errorf("%s: its history is %+v, %v", c.name, history, err)
		}
		if failed != nil || strings.HasPrefix(ended.Message, "dry run") != c.dry {
			t.Errorf("%s: %s, %v", c.name, ended.Message, failed)
		}
		page, err := h.Engine.Store().List(t.Context(), job.Query{Kinds: []job.Kind{archive.Kind}})
		if err != nil || len(page.Jobs) != c.jobs {
			t.Errorf("%s: %d archive jobs, %v", c.name, len(page.Jobs), err)
		}
	}
	if err := h.catalog.PutFailure(t.Context(), catalog.Failure{Source: "disk", Activity: "maps", Fingerprint: "1",
		Job: "arc_9", At: time.Now(), Cause: "disk full"}); err != nil {
		t.Fatal(err)
	}
	all, err = h.Client.ArchiveSchedules(t.Context())
	if err != nil || all[0].Last == nil || !all[0].Last.Ended || all[0].Waits != 1 || len(all[0].Waiting) != 1 {
		t.Fatalf("got %+v, %v", all, err)
	}
	if w := all[0].Waiting[0]; w.Activity != "maps" || w.Failures != 1 || w.Cause != "disk full" || w.Job != "arc_9" ||
		!w.Until.Equal(w.Last.Add(24*time.Hour)) {
		t.Errorf("it waits: %+v", w)
	}
	_, err = h.Client.StartSchedule(t.Context(), "other", client.StartSchedule{})
	if job.KindOf(err) != job.NotFound {
		t.Errorf("an unknown schedule: %v", err)
	}
	_, err = h.Client.StartSchedule(t.Context(), "nightly", client.StartSchedule{Key: "schedule/nightly/after/"})
	if job.KindOf(err) != job.Invalid {
		t.Errorf("a key of the scheduler: %v", err)
	}
}
