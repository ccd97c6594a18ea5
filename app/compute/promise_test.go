package compute_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/store/storetest"
)

// meeting is a store of which several calls make a job at once: each waits until all have come.
type meeting struct {
	job.Store
	all  *sync.WaitGroup
	lost bool // the owner's jobs cannot be listed
}

func (m *meeting) Create(ctx context.Context, jobs ...job.Created) ([]job.Job, error) {
	if m.all != nil {
		m.all.Done()
		m.all.Wait()
	}
	return m.Store.Create(ctx, jobs...)
}

func (m *meeting) List(ctx context.Context, q job.Query) (job.Page, error) {
	if m.lost && q.Owner != "" {
		return job.Page{}, &job.Error{Op: "list", Kind: job.Unavailable, Err: errors.New("the database is away")}
	}
	return m.Store.List(ctx, q)
}

// ofSize orders a job of n bytes.
func ofSize(w *harness, owner, key string, n int) (job.Job, error) {
	return w.order(compute.Order{Owner: owner, Service: "example", Key: key}, map[string]string{compute.Script: hello,
		"data": strings.Repeat("x", n-len(hello))})
}

// removed cancels a job and removes its files.
func (w *harness) removed(id job.ID) {
	w.t.Helper()
	request := compute.Request{By: lifecycle.Owner, Actor: "ada"}
	if _, err := w.app.Cancel(w.t.Context(), id, request); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.app.Clean(w.t.Context(), id, request); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// TestQuotaOfSeveralServers sends uploads to several servers of one store at once, each of which finds the last space
// free: as many as fit are taken. Control: servers that do not promise, because each takes the store for its own.
func TestQuotaOfSeveralServers(t *testing.T) {
	for _, shared := range []bool{true, false} {
		for _, n := range []int{400, 600, 1000} {
			runInBubble(t, fmt.Sprintf("shared %t, %d bytes", shared, n), func(t *testing.T) {
				var store job.Store = mem.New()
				if shared {
					store = storetest.Several{Store: store}
				}
				o := quick(t)
				o.UserBytes = 1000
				const servers = 3
				var all sync.WaitGroup
				all.Add(servers)
				var apps []*harness
				for range servers {
					apps = append(apps, newHarnessOn(t, &meeting{Store: store, all: &all}, o, nil))
				}
				synctest.Wait() // all have counted
				jobs, errs := make([]job.Job, servers), make([]error, servers)
				var done sync.WaitGroup
				for i, w := range apps {
					done.Go(func() { jobs[i], errs[i] = ofSize(w, "ada", fmt.Sprint("k", i), n) })
				}
				done.Wait()
				synctest.Wait()
				taken := 0
				for i, err := range errs {
					now, _ := store.Get(t.Context(), jobs[i].ID)
					switch {
					case err == nil && now.State == compute.Queued && now.Due.Before(time.Now().Add(2*time.Second)) &&
						now.Tags == nil: // it was claimed, and waits for an agent
						taken++
					case job.KindOf(err) == job.Refused && strings.Contains(err.Error(), "may have 1000") &&
						now.State == compute.Cleaned:
					default:
						t.Errorf("server %d: %v, the job is %s, due %s", i, err, now.State, now.Due)
					}
				}
				want := 1000 / n
				if !shared {
					want = servers
				}
				if taken != want {
					t.Fatalf("%d were taken, want %d", taken, want)
				}
				for i, w := range apps {
					if got := w.app.Usage("ada"); got != int64(taken*n) {
						t.Errorf("server %d counts %d bytes, want %d", i, got, taken*n)
					}
				}
				for _, w := range apps {
					w.store.(*meeting).all = nil
				}
				if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
					for k, err := range errs {
						if err == nil {
							apps[k].removed(jobs[k].ID)
						}
					}
					_, err := ofSize(apps[i], "ada", fmt.Sprint("k", i), n)
					if job.KindOf(err) != job.Refused || !strings.Contains(err.Error(), "another idempotency key") {
						t.Errorf("sent again under its key: %v", err)
					}
				}
				if _, err := ofSize(apps[0], "bob", "", 900); err != nil {
					t.Errorf("another owner: %v", err)
				}
			})
		}
	}
}

// TestPromiseOfCrashedServer: a server that made jobs and could not decide about their promises leaves that to the
// steps, after a minute. Of two that do not fit together, the one that was made first runs.
func TestPromiseOfCrashedServer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := storetest.Several{Store: mem.New()}
		o := quick(t)
		o.UserBytes = 1000
		var all sync.WaitGroup
		all.Add(2)
		a := newHarnessOn(t, &meeting{Store: store, all: &all, lost: true}, o, nil)
		b := newHarnessOn(t, &meeting{Store: store, all: &all, lost: true}, o, nil)
		synctest.Wait()
		var done sync.WaitGroup
		for _, w := range []*harness{a, b} {
			done.Go(func() {
				if _, err := ofSize(w, "ada", "", 600); job.KindOf(err) != job.Unavailable {
					t.Errorf("got %v", err)
				}
			})
		}
		done.Wait()
		a.stop()
		b.stop()
		third := newHarnessOn(t, store, o, one(newFake()))
		page, err := store.List(t.Context(), job.Query{Kinds: []job.Kind{compute.JobKind}, Oldest: true})
		if err != nil || len(page.Jobs) != 2 {
			t.Fatalf("%d jobs, %v", len(page.Jobs), err)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if now, _ := store.Get(t.Context(), page.Jobs[0].ID); now.State != compute.Queued {
			t.Errorf("after 30 s it is %s", now.State)
		}
		time.Sleep(time.Minute)
		third.until(page.Jobs[0].ID, compute.Completed)
		if j := third.until(page.Jobs[1].ID, compute.Invalid); !strings.Contains(j.Message, "may have 1000") {
			t.Errorf("the second: %q", j.Message)
		}
	})
}
