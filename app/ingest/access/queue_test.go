package access

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// hold pauses a queue, or lets it go on.
func hold(t *testing.T, w *harness, tag string, on bool) {
	t.Helper()
	change := w.store.Hold
	if !on {
		change = w.store.Release
	}
	h := job.Hold{Scope: job.Scope{Tag: tag}, Who: "op", Why: "storage moves", Since: w.clock.Now()}
	if _, err := change(t.Context(), h); err != nil {
		t.Fatal(err)
	}
}

// gate is a holding whose large files open only when they are let.
type gate struct {
	Holdings
	size int64
	let  chan struct{} // closed: the large ones open
	once sync.Once
	came chan struct{} // closed when a large one is asked for
}

func (g *gate) OpenContent(place, path string) (*os.File, error) {
	f, err := g.Holdings.OpenContent(place, path)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.Size() > g.size {
		g.once.Do(func() { close(g.came) })
		<-g.let
	}
	return f, nil
}

// TestSmallPassesLarge keeps the large queue busy: small ones are made meanwhile, a second large one waits.
func TestSmallPassesLarge(t *testing.T) {
	g := &gate{size: 100_000, let: make(chan struct{}), came: make(chan struct{})}
	w := start(t, func(o *Options) {
		g.Holdings = o.Holdings
		o.Holdings, o.SmallBytes = g, 10_000
	})
	large := w.object("l1", map[string]string{"big": strings.Repeat("x", 200_000)})
	small := w.object("l2", map[string]string{"a": "alpha"})
	one, two := w.request(Request{Object: large}), w.request(Request{Object: large})
	<-g.came
	for range 5 {
		if s := w.ready(Request{Object: small}); s.Queue != "small" {
			t.Errorf("got %+v", s)
		}
	}
	first, second := w.status(one.Token), w.status(two.Token)
	if first.State != record.Processing {
		first, second = second, first
	}
	if first.State != record.Processing || first.Code != CodeNotReady || first.Queue != "large" {
		t.Errorf("got %+v", first)
	}
	if second.State != record.Pending || second.Code != CodeQueued || second.Place != 1 ||
		!strings.Contains(second.Message, "it is the next") {
		t.Errorf("got %+v", second)
	}
	why, err := explain.New(w.e).Why(t.Context(), second.Job, time.Time{})
	if err != nil || len(why.Blockers) == 0 || !strings.Contains(why.Blockers[0].Sentence, "access.large.workers") {
		t.Errorf("got %+v, %v", why.Blockers, err)
	}
	if _, err := w.Open(t.Context(), first.Token); job.KindOf(err) != job.Refused {
		t.Errorf("got %v", err)
	}
	close(g.let)
	for _, s := range []Status{one, two} {
		w.end(s.Job)
		w.fetch(s.Token)
	}
}

// TestSmallQueueIsBounded: no more than so many at once; the rest is queued.
func TestSmallQueueIsBounded(t *testing.T) {
	g := &gate{size: 100_000, let: make(chan struct{}), came: make(chan struct{})}
	w := start(t, func(o *Options) {
		g.Holdings = o.Holdings
		o.Holdings, o.SmallWorkers = g, 2
	})
	ark := w.object("l1", map[string]string{"big": strings.Repeat("x", 200_000)})
	var all []Status
	for range 5 {
		all = append(all, w.request(Request{Object: ark}))
	}
	busy := func() (n int) {
		for _, s := range all {
			if w.status(s.Token).State == record.Processing {
				n++
			}
		}
		return n
	}
	for deadline := time.Now().Add(10 * time.Second); busy() < 2 && time.Now().Before(deadline); {
		<-time.After(time.Millisecond)
	}
	other := w.object("l2", map[string]string{"a": "alpha"}) // the engine has had time to take more
	if n := busy(); n != 2 {
		t.Errorf("%d are being made", n)
	}
	if s := w.request(Request{Object: other}); s.Place != 4 {
		t.Errorf("got %+v", s)
	}
	close(g.let)
	for _, s := range all {
		w.end(s.Job)
	}
}

// TestPause pauses one queue by a hold on its tag. The other goes on.
func TestPause(t *testing.T) {
	w := start(t, func(o *Options) { o.SmallBytes = 10_000 })
	large := w.object("l1", map[string]string{"big": strings.Repeat("x", 200_000)})
	small := w.object("l2", map[string]string{"a": "alpha"})
	hold(t, w, LargeTag, true)
	s := w.request(Request{Object: large})
	w.ready(Request{Object: small})
	got := w.status(s.Token)
	if got.State != record.Pending || got.Code != CodeQueued || !strings.Contains(got.Message, "paused") ||
		!strings.Contains(got.Message, "storage moves") {
		t.Errorf("got %+v", got)
	}
	if _, err := w.Open(t.Context(), s.Token); job.KindOf(err) != job.Refused {
		t.Errorf("got %v", err)
	}
	hold(t, w, LargeTag, false)
	if j := w.end(s.Job); j.Outcome != lifecycle.OK {
		t.Errorf("got %s", j.State)
	}
}
