package ingest

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/store/storetest"
)

// besides are the reservations of another server on the store and the disk of an application.
func (w *harness) besides(name string) *reservations {
	w.t.Helper()
	e, err := engine.New(w.store, w.Works(), engine.Options{Name: name})
	if err != nil {
		w.t.Fatal(err)
	}
	return newReservations(&App{options: w.options, log: w.log, engine: e})
}

// TestPromisesOfOtherServers: what one server has promised to a job, another server of the store does not promise
// again, also if it began before. Control: on a store that one process owns, a second one has only the promises from
// before its start.
func TestPromisesOfOtherServers(t *testing.T) {
	for _, shared := range []bool{true, false} {
		block := make(chan struct{})
		s := newSite(t, map[string]string{"b": strings.Repeat("y", 300)})
		s.answer("a", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "300")
			if r.Method == http.MethodGet {
				<-block
				_, _ = w.Write([]byte(strings.Repeat("x", 300)))
			}
		})
		d := &volume{}
		d.free.Store(1000)
		d.total.Store(1 << 40)
		o := options(t, t.TempDir())
		o.Disk, o.Reserve = d.space, 1
		var store job.Store = mem.New()
		if shared {
			store = storetest.Several{Store: store}
		}
		w := startOn(t, store, o)
		other := w.besides("other")
		if b := other.promise(t.Context(), &job.Job{ID: "ing_none"}, 0); b != nil {
			t.Fatalf("got %+v", b)
		}
		a := w.children(w.submit(Submission{},
			manifest("mrt-single-file-batch-manifest", s.row("a", "", ""))).ID, 1)[0]
		w.until(a.ID, func(j *job.Job) bool { return j.State == record.Downloading })
		second := w.submit(Submission{}, manifest("mrt-single-file-batch-manifest", s.row("b", "", "")))
		id := w.children(second.ID, 1)[0].ID
		w.waits(id)
		j, err := w.store.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		switch b := other.gate(t.Context(), &j); {
		case shared && (b == nil || !strings.Contains(b.Sentence, "needs 600 bytes, 399 are free")):
			t.Errorf("another server answers %+v", b)
		case !shared && b != nil:
			t.Errorf("control: another process answers %+v", b)
		}
		close(block)
		if got := w.end(second.ID); got.State != record.Completed {
			t.Errorf("got %s: %s", got.State, got.Message)
		}
	}
}

// TestServersPromiseAtOnce: two servers decide at the same time about two jobs, and there is space for one. Never do
// both get it, and the older job asks again sooner. Control: there is space for both, and both get it.
func TestServersPromiseAtOnce(t *testing.T) {
	s := newSite(t, map[string]string{"a": strings.Repeat("x", 300), "b": strings.Repeat("y", 300)})
	d := &volume{}
	d.free.Store(10)
	d.total.Store(1 << 40)
	o := options(t, t.TempDir())
	o.Disk, o.Reserve, o.Look = d.space, 1, time.Hour
	w := startOn(t, storetest.Several{Store: mem.New()}, o)
	jobs := w.children(w.submit(Submission{}, manifest("mrt-single-file-batch-manifest", s.row("a", "", ""),
		s.row("b", "", ""))).ID, 2)
	for _, j := range jobs {
		w.waits(j.ID)
	}
	w.stop()
	later := time.Now().Add(3 * time.Hour) // when the checks of both are due
	claimed := make([]job.Job, 2)
	var servers []*reservations
	from := []job.KindState{{Kind: record.JobKind, State: record.Provisioning}}
	for i, name := range []string{"one", "two"} {
		r := w.besides(name)
		servers = append(servers, r)
		got, err := w.store.Claim(t.Context(), job.Claim{Worker: r.app.engine.Status().Worker, N: 1,
			Lease: 24 * time.Hour, Now: later, From: from})
		if err != nil || len(got) != 1 {
			t.Fatalf("%d claimed, %v", len(got), err)
		}
		claimed[i] = got[0]
	}
	ask := func() (granted [2]*job.Blocker) {
		var both sync.WaitGroup
		for i, r := range servers {
			both.Go(func() { granted[i] = r.promise(t.Context(), &claimed[i], 600) })
		}
		both.Wait()
		return granted
	}
	d.free.Store(1000)
	for range 100 {
		got := ask()
		if got[0] == nil && got[1] == nil {
			t.Fatal("both servers promise the same space")
		}
		for i, b := range got {
			if early := b != nil && b.Until.Before(servers[i].app.engine.Clock().Now().Add(o.Look/2)); b != nil &&
				early != (claimed[i].Number < claimed[1-i].Number) {
				t.Errorf("job %d asks again at %v", claimed[i].Number, b.Until)
			}
		}
		for _, r := range servers {
			clear(r.promised)
		}
	}
	d.free.Store(2000)
	if got := ask(); got[0] != nil || got[1] != nil {
		t.Errorf("control: with space for both they get %+v and %+v", got[0], got[1])
	}
}
