package ingest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// disk is a file system whose free space the test sets.
type volume struct{ free, total atomic.Int64 }

func (d *volume) space(string) (int64, int64, error) { return d.free.Load(), d.total.Load(), nil }

// roomy starts the application on such a disk; nothing is kept in reserve but a byte.
func roomy(t *testing.T, free, total int64, more func(*Options)) (*harness, *volume) {
	t.Helper()
	d := &volume{}
	d.free.Store(free)
	d.total.Store(total)
	o := options(t, t.TempDir())
	o.Disk, o.Reserve = d.space, 1
	if more != nil {
		more(&o)
	}
	return startOn(t, mem.New(), o), d
}

// waits waits until the job waits in Provisioning for free space.
func (w *harness) waits(id job.ID) job.Blocker {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	for {
		if _, err := w.e.Await(ctx, id,
			func(j *job.Job) bool { return j.Cause == "space" && !j.Claimed() }); err != nil {
			w.t.Fatalf("it does not wait for space: %v", err)
		}
		x, err := explain.New(w.e).Why(ctx, id, time.Time{})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, b := range x.Blockers { // none while a worker has just claimed it again
			if b.Code == "space" && b.Remedy != "" {
				return b
			}
		}
	}
}

func TestSmallJobsPassALargeOne(t *testing.T) {
	s := newSite(t, map[string]string{"large": strings.Repeat("x", 5000), "small": "x"})
	w, d := roomy(t, 1000, 1<<40, nil)
	b := w.submit(Submission{}, manifest("mrt-single-file-batch-manifest", s.row("large", "", ""),
		s.row("small", "", ""), s.row("small", "", "")))
	jobs := w.children(b.ID, 3)
	for _, small := range jobs[1:] {
		if got := w.end(small.ID); got.State != record.Completed {
			t.Errorf("got %s: %s", got.State, got.Message)
		}
	}
	why := w.waits(jobs[0].ID)
	if !strings.Contains(why.Sentence, "10000 bytes") || why.Remedy == "" || why.Holder == "" {
		t.Errorf("got %+v", why)
	}
	d.free.Store(1 << 30)
	if got := w.end(b.ID); got.State != record.Completed {
		t.Errorf("got %s: %s", got.State, got.Message)
	}
}

func TestPromisedRoomIsNotGivenTwice(t *testing.T) {
	block := make(chan struct{})
	s := newSite(t, map[string]string{"a": "", "b": strings.Repeat("y", 300)})
	s.answer("a", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "300")
		if r.Method == http.MethodGet {
			<-block
			_, _ = w.Write([]byte(strings.Repeat("x", 300)))
		}
	})
	w, _ := roomy(t, 1000, 1<<40, nil)
	first := w.submit(Submission{}, manifest("mrt-single-file-batch-manifest", s.row("a", "", "")))
	a := w.children(first.ID, 1)[0]
	w.until(a.ID, func(j *job.Job) bool { return j.State == record.Downloading })
	second := w.submit(Submission{}, manifest("mrt-single-file-batch-manifest", s.row("b", "", "")))
	b := w.children(second.ID, 1)[0]
	if why := w.waits(b.ID); !strings.Contains(why.Sentence, "needs 600 bytes, 399 are free") {
		t.Errorf("got %+v", why)
	}
	close(block)
	w.end(first.ID)
	if got := w.end(second.ID); got.State != record.Completed {
		t.Errorf("got %s: %s", got.State, got.Message)
	}
}

func TestStoppedJobGivesItsRoomBack(t *testing.T) {
	block := make(chan struct{})
	t.Cleanup(func() { close(block) })
	s := newSite(t, map[string]string{"b": strings.Repeat("y", 300)})
	s.answer("a", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "300")
		if r.Method == http.MethodGet {
			select {
			case <-block:
			case <-r.Context().Done():
			}
		}
	})
	w, _ := roomy(t, 1000, 1<<40, nil)
	first := w.submit(Submission{}, manifest("mrt-single-file-batch-manifest", s.row("a", "", "")))
	a := w.children(first.ID, 1)[0]
	w.until(a.ID, func(j *job.Job) bool { return j.State == record.Downloading })
	if err := w.do(a.ID, record.Stop); err != nil {
		t.Fatal(err)
	}
	if got := w.end(w.submit(Submission{},
		manifest("mrt-single-file-batch-manifest", s.row("b", "", ""))).ID); got.State != record.Completed {
		t.Errorf("got %s: %s", got.State, got.Message)
	}
}

func TestJobThatCanNeverFitFails(t *testing.T) {
	s := newSite(t, map[string]string{"large": strings.Repeat("x", 5000)})
	w, _ := roomy(t, 1000, 2000, nil)
	w.clearly(w.ingest(Submission{}, s.manifest("large")), CauseTooLarge)
}

func TestUnknownSizesNeedPlenty(t *testing.T) {
	s := newSite(t, nil)
	s.answer("a", s.mute("alpha"))
	w, d := roomy(t, 1000, 1<<40, func(o *Options) { o.Reserve = 800 })
	b := w.submit(Submission{}, manifest("mrt-ingest-manifest", s.URL+"/a |  |  |  |  | a"))
	w.waits(w.children(b.ID, 1)[0].ID)
	d.free.Store(10_000)
	if got := w.end(b.ID); got.State != record.Completed {
		t.Errorf("got %s: %s", got.State, got.Message)
	}
}

// TestNoReserve: with a reserve of none a job takes the last bytes of the disk. Control: by default it leaves 512 MiB
// free.
func TestNoReserve(t *testing.T) {
	s := newSite(t, map[string]string{"large": strings.Repeat("x", 5000)})
	w, d := roomy(t, 100_000, 1<<40, func(o *Options) { o.Reserve = 0 })
	b := w.submit(Submission{}, s.manifest("large"))
	w.waits(w.children(b.ID, 1)[0].ID)
	d.free.Store(1 << 30)
	w.end(b.ID)
	w, _ = roomy(t, 100_000, 1<<40, func(o *Options) { o.Reserve = -1 })
	if got := w.end(w.submit(Submission{}, s.manifest("large")).ID); got.State != record.Completed {
		t.Errorf("got %s: %s", got.State, got.Message)
	}
}

func TestLargeJobIsNotStarved(t *testing.T) {
	s := newSite(t, map[string]string{"large": strings.Repeat("x", 5000), "small": "x"})
	w, d := roomy(t, 9000, 1<<40, func(o *Options) { o.Patience = time.Nanosecond })
	first := w.submit(Submission{}, manifest("mrt-single-file-batch-manifest", s.row("large", "", "")))
	large := w.children(first.ID, 1)[0]
	w.waits(large.ID)
	second := w.submit(Submission{}, manifest("mrt-single-file-batch-manifest", s.row("small", "", "")))
	small := w.children(second.ID, 1)[0]
	if why := w.waits(small.ID); !strings.Contains(why.Sentence, fmt.Sprintf("%s waits", large.ID)) {
		t.Errorf("got %+v", why)
	}
	d.free.Store(1 << 30)
	for _, b := range []job.Job{first, second} {
		if got := w.end(b.ID); got.State != record.Completed {
			t.Errorf("got %s: %s", got.State, got.Message)
		}
	}
}
