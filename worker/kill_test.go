package worker_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/worker"
)

var killedJobs = flag.Int("killed-jobs", 200, "jobs of TestKills")

// TestKills: four workers do jobs while one after the other is killed at a random moment and replaced. No job is lost,
// and each succeeds once.
func TestKills(t *testing.T) {
	const workers = 4
	bubble(t, func(h *harness) {
		random := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		succeeded := map[job.ID]int{}
		step := func(ctx context.Context, r *engine.Run) error {
			mu.Lock()
			takes := time.Duration(random.Int64N(int64(20 * time.Second)))
			mu.Unlock()
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(takes):
			}
			r.Log().Info("printed")
			return r.SetData(r.Fence())
		}
		var ids []job.ID
		for range *killedJobs {
			ids = append(ids, h.submit().ID)
		}
		start := func(i, n int) (kill func()) {
			d := &direct{Engine: h.Engine}
			stop := h.work(d, step, worker.Options{Name: fmt.Sprintf("w%d-%d", i, n), Lease: 30 * time.Second, Grace: job.Off})
			return func() {
				d.stop() // its requests are lost from now on
				go func() { _ = stop() }()
			}
		}
		ctx, cancel := context.WithCancel(h.t.Context())
		var killers sync.WaitGroup
		for i := range workers {
			killers.Go(func() {
				for n := 0; ; n++ {
					kill := start(i, n)
					mu.Lock()
					lives := 15*time.Second + time.Duration(random.Int64N(int64(45*time.Second)))
					mu.Unlock()
					select {
					case <-ctx.Done():
						kill()
						return
					case <-time.After(lives):
						kill()
					}
				}
			})
		}
		kills, began := 0, time.Now()
		for _, id := range ids {
			j := h.end(id)
			e := h.events(id)
			kills += e["lost"]
			succeeded[id] = e["finish"]
			if j.State != "Printed" || e["finish"] != 1 {
				t.Errorf("%s: %s after %v", id, j.State, e)
			}
		}
		if len(succeeded) != *killedJobs || kills == 0 {
			t.Errorf("%d jobs, %d claims of killed workers: nothing was tested", len(succeeded), kills)
		}
		t.Logf("%d jobs in %s, %d claims of killed workers", len(ids), time.Since(began), kills)
		cancel()
		killers.Wait()
		time.Sleep(time.Hour) // the killed ones end by themselves
	}, func(w *engine.Work) { w.Policy.MaxStarts = 50 })
}
