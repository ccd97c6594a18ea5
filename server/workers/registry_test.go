package workers_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/workers"
)

var (
	printing = job.KindState{Kind: "test.paper", State: "Printing"}
	binding  = job.KindState{Kind: "test.book", State: "Binding"}
)

// harness is a registry with a clock.
type harness struct {
	*workers.Registry
	now time.Time
}

func open() *harness {
	h := &harness{now: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)}
	h.Registry = workers.New(func() time.Time { return h.now })
	return h
}

func (h *harness) claim(name string, labels ...string) (done func([]job.Job)) {
	return h.Claims(&api.Claim{Worker: name, From: []job.KindState{printing}, Labels: labels, Lease: 90, Slots: 2})
}

// list returns the workers in short.
func (h *harness) list() string {
	var all []string
	for _, w := range h.List(nil) {
		all = append(all, fmt.Sprint(w.Name, " ", w.State, " ", len(w.Running)))
	}
	return strings.Join(all, ", ")
}

// TestStates: a worker is busy while it has jobs, and silent when it neither waits for jobs nor sends requests for
// longer than its lease.
func TestStates(t *testing.T) {
	h := open()
	expect := func(want string) {
		t.Helper()
		if got := h.list(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	done := h.claim("ann")
	h.now = h.now.Add(time.Hour) // its claim waits: it is connected
	expect("ann idle 0")
	lease := job.Lease{Job: "pap_1", Epoch: 3}
	done([]job.Job{{ID: lease.Job, Epoch: lease.Epoch}, {ID: "pap_2", Epoch: 1}})
	expect("ann busy 2")
	h.now = h.now.Add(89 * time.Second)
	expect("ann busy 2")
	h.now = h.now.Add(2 * time.Second)
	expect("ann silent 0") // another worker may have its jobs
	h.Renews("ann", []job.Lease{lease, {Job: "pap_2", Epoch: 1}}, []job.Lease{{Job: "pap_2", Epoch: 1}}, 0)
	expect("ann busy 1")
	h.Reports("ann", []job.Lease{{Job: lease.Job, Epoch: 2}}, []job.Result{{Err: job.Errorf(job.Stale, "", "", "old")}})
	expect("ann busy 1") // another claim
	h.Reports("ann", []job.Lease{lease}, []job.Result{{Job: job.Job{ID: lease.Job, Ended: true}}})
	expect("ann idle 0")
	h.now = h.now.Add(25 * time.Hour)
	expect("") // forgotten
}

// TestJobsOfGoneWorkers: a job is listed until its lease is over, unless the worker renews it or reports. A worker that
// continues without it is idle, and one that is gone keeps nothing in memory.
func TestJobsOfGoneWorkers(t *testing.T) {
	h := open()
	expect := func(want string) {
		t.Helper()
		if got := h.list(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	all := []job.Job{{ID: "pap_1", Epoch: 1, Until: h.now.Add(10 * time.Minute)}, {ID: "pap_2", Epoch: 1}}
	h.claim("ann")(all)
	h.claim("bob")(all[1:])
	h.now = h.now.Add(80 * time.Second)
	h.Renews("bob", []job.Lease{{Job: "pap_2", Epoch: 1}}, nil, time.Hour)
	h.claim("ann")(nil) // it lost pap_2 without a report, and has a long lease of pap_1
	h.now = h.now.Add(20 * time.Second)
	expect("ann busy 1, bob busy 1")
	h.now = h.now.Add(10 * time.Minute)
	h.claim("ann")(nil)
	expect("ann idle 0, bob silent 1")
	h.now = h.now.Add(time.Hour)
	h.claim("ann")(nil)
	expect("ann idle 0, bob silent 0")
	h.now = h.now.Add(25 * time.Hour)
	h.claim("cy")(nil)
	if n := h.Known(); n != 1 {
		t.Errorf("%d workers are kept", n)
	}
}

// TestDrained: a worker that is drained is shown as that, with who did it and why.
func TestDrained(t *testing.T) {
	h := open()
	h.claim("ann")(nil)
	all := h.List(map[string]job.Hold{"ann": {Who: "eve", Why: "new disk"}})
	if len(all) != 1 || all[0].State != api.WorkerDraining || all[0].Drain == nil || all[0].Drain.Why != "new disk" {
		t.Errorf("got %+v", all)
	}
}

// TestTakes: only workers that are not silent, claim from the state and have all labels take its jobs.
func TestTakes(t *testing.T) {
	h := open()
	if !h.Takes(printing, nil).New {
		t.Error("a new registry claims to have all workers")
	}
	h.claim("ann", "gpu", "zone=b")(nil)
	h.now = h.now.Add(2 * time.Minute)
	h.claim("bob")(nil)
	for _, c := range []struct {
		at     job.KindState
		labels []string
		live   string
		last   string
	}{
		{printing, nil, "bob", "bob"}, {printing, []string{"gpu"}, "", "ann"}, {printing, []string{"cpu"}, "", ""},
		{binding, nil, "", ""},
	} {
		got := h.Takes(c.at, c.labels)
		if live := strings.Join(got.Live, " "); live != c.live || got.Last != c.last || got.New {
			t.Errorf("%s with %v: %+v", c.at.State, c.labels, got)
		}
	}
	h.claim("ann", "gpu")(nil)
	if got := h.Takes(printing, []string{"gpu"}); len(got.Live) != 1 {
		t.Errorf("the control: %+v", got)
	}
}

// TestBounded: the registry keeps a bounded number of workers, and forgets the one that is silent for longest.
func TestBounded(t *testing.T) {
	h := open()
	for i := range 10_003 {
		h.now = h.now.Add(time.Millisecond)
		h.claim(fmt.Sprint("w", i))(nil)
	}
	all := h.List(nil)
	if len(all) != 10_000 {
		t.Errorf("%d workers", len(all))
	}
	for _, w := range all {
		if w.Name == "w0" || w.Name == "w2" {
			t.Errorf("%s is there, which was seen before others", w.Name)
		}
	}
}
