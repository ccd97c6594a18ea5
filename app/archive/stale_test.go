package archive

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/edge/storage"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// deaf is a store whose worker believes that it renews its leases, and loses them.
type deaf struct {
	job.Store

	mu      sync.Mutex // guards the rest
	epoch   int64      // of the claim of another worker
	changed int        // changes under earlier claims since then
}

func (d *deaf) lost(epoch int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.epoch = epoch
}

func (d *deaf) Renew(context.Context, job.Renewal) ([]job.Lease, error) { return nil, nil }

func (d *deaf) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	all, err := d.Store.Commit(ctx, changes...)
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, r := range all {
		if err == nil && r.Err == nil && changes[i].Epoch > 0 && changes[i].Epoch < d.epoch {
			d.changed++
		}
	}
	return all, err
}

// gate stops the first worker that comes to it.
type gate struct {
	mu      sync.Mutex // guards passed
	passed  bool
	reached chan struct{}
	open    chan struct{}
}

func newGate() *gate { return &gate{reached: make(chan struct{}), open: make(chan struct{})} }

func (g *gate) pass() error {
	g.mu.Lock()
	first := !g.passed
	g.passed = true
	g.mu.Unlock()
	if first {
		close(g.reached)
		<-g.open // also when its context ends: it does not notice
	}
	return nil
}

// TestStaleWorker: a worker that does not notice the end of its lease stands in the midst of a phase while another
// worker claims the job. The second one waits for the working directory. The first one changes nothing any more, and
// the job completes with each file once.
func TestStaleWorker(t *testing.T) {
	for name, plan := range map[string]func(*testing.T, *fake, *gate) func(*Options){
		"source": func(_ *testing.T, src *fake, g *gate) func(*Options) {
			src.onFetch = func(string, string) { _ = g.pass() }
			return nil
		},
		"location": func(t *testing.T, _ *fake, g *gate) func(*Options) {
			return func(o *Options) {
				var targets []copies.Target
				for _, name := range []string{"near", "far"} {
					d, err := storage.OpenDir(filepath.Join(o.Dir, name), storage.Local)
					if err != nil {
						t.Fatal(err)
					}
					targets = append(targets, copies.Target{Name: name, At: flakyLocation{d, g.pass}})
				}
				s, err := copies.New(copies.Options{Catalog: o.Catalog, Targets: targets})
				if err != nil {
					t.Fatal(err)
				}
				o.Copies = s
			}
		},
		"authority": func(_ *testing.T, _ *fake, g *gate) func(*Options) {
			return func(o *Options) { o.Signer = &flakySigner{attempt: g.pass} }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, dir, src, g := mem.New(), quickDir(t), newFake(1, 2), newGate()
				change := plan(t, src, g)
				silent := &deaf{Store: store}
				first := start(t, silent, dir, src, change)
				defer first.stop()
				j := first.submit(Request{})
				<-g.reached
				second := start(t, store, dir, src, change)
				defer second.stop()
				time.Sleep(time.Minute)
				now, err := store.Get(t.Context(), j.ID)
				if got := second.events(j.ID); err != nil || now.Epoch < 2 || !strings.HasSuffix(got, "lost wait") {
					t.Errorf("the second worker does not wait for the first one: %s, %v", got, err)
				}
				silent.lost(now.Epoch)
				close(g.open)
				j = second.end(j.ID)
				if wrong := second.stored(&j, dir); j.State != Completed || len(wrong) > 0 {
					t.Errorf("got %s: %v", j.State, wrong)
				}
				if got := second.events(j.ID); strings.Count(got, "next") != 6 || !strings.Contains(got, "lost") {
					t.Errorf("got %s", got)
				}
				if silent.changed > 0 {
					t.Errorf("the first worker made %d changes", silent.changed)
				}
			})
		})
	}
}
