package zookeeper

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/storetest"
	"github.com/stagepost/stagepost/store/zookeeper/zktest"
)

// grouped is a store whose next calls are one group.
func grouped(t *testing.T) (*Store, *zktest.Server) {
	t.Helper()
	srv := zktest.Shared(t)
	s, err := Open(t.Context(), []string{srv.Address}, Options{SessionTimeout: 20 * zktest.Tick})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, srv
}

func newJob(id string) job.Created {
	j, e := job.New(job.Job{ID: job.ID(id), Kind: job.Kind(storetest.Step.Name()), Position: storetest.Step.Start(),
		Priority: job.DefaultPriority, Definition: storetest.Step.Hash()}, lifecycle.Owner, "alice",
		time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
	return job.Created{Job: j, Event: e}
}

// creations are calls that create a job each, and what they return.
func creations(ctx context.Context, jobs ...job.Created) (calls []*call, errs []error) {
	errs = make([]error, len(jobs))
	for i := range jobs {
		calls = append(calls, newCall(ctx, func(r *records) { _, errs[i] = r.ledger.Create(r, jobs[i:i+1], nil) }))
	}
	return calls, errs
}

// errorOf returns what the caller of a call gets.
func errorOf(c *call, err error) error {
	if c.failed != nil {
		return c.failed
	}
	return err
}

// version returns how often the node commit was set: once a multi.
func version(t *testing.T, raw *zk.Conn) int32 {
	t.Helper()
	_, stat, err := raw.Get("/stagepost/commit")
	if err != nil {
		t.Fatal(err)
	}
	return stat.Version
}

// Calls that wait share one multi. The control are two groups of one call.
func TestOneMulti(t *testing.T) {
	s, srv := grouped(t)
	raw := srv.Raw(t)
	before := version(t, raw)
	calls, errs := creations(t.Context(), newJob("tst_1"), newJob("tst_2"), newJob("tst_3"))
	s.carryOut(calls)
	for i, c := range calls {
		if err := errorOf(c, errs[i]); err != nil {
			t.Error(err)
		}
	}
	if n := version(t, raw) - before; n != 1 {
		t.Errorf("%d multis", n)
	}
	calls, _ = creations(t.Context(), newJob("tst_4"), newJob("tst_5"))
	s.carryOut(calls[:1])
	s.carryOut(calls[1:])
	if n := version(t, raw) - before; n != 3 {
		t.Errorf("%d multis after the control", n)
	}
	sound(t, s)
}

// A call that is too large is refused by itself.
func TestRefusedAlone(t *testing.T) {
	s, _ := grouped(t)
	big := newJob("tst_2")
	big.Job.Spec = []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
	calls, errs := creations(t.Context(), newJob("tst_1"), big, newJob("tst_3"))
	s.carryOut(calls)
	for i, want := range []job.ErrorKind{"", job.Refused, ""} {
		if err := errorOf(calls[i], errs[i]); job.KindOf(err) != want {
			t.Errorf("call %d: %v", i, err)
		}
	}
	sound(t, s)
}

// Calls of a group whose sum is too large are made in several multis.
func TestSeveralMultis(t *testing.T) {
	s, _ := grouped(t)
	var jobs []job.Created
	for _, id := range []string{"tst_1", "tst_2", "tst_3", "tst_4"} {
		j := newJob(id)
		j.Job.Spec = []byte(`"` + strings.Repeat("x", 400_000) + `"`)
		jobs = append(jobs, j)
	}
	calls, errs := creations(t.Context(), jobs...)
	s.carryOut(calls)
	for i := range calls {
		if err := errorOf(calls[i], errs[i]); err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
	sound(t, s)
}

// If the servers refuse the multi because of one call, the others are made. The control is that they share a multi,
// which is refused.
func TestOthersAreMade(t *testing.T) {
	s, srv := grouped(t)
	raw := srv.Raw(t)
	one := newJob("tst_2") // restored by another program: this process does not know it
	one.Job.Number = 1
	for _, n := range []struct {
		path string
		data []byte
	}{
		{s.root.job("tst_2"), encodeJob(1, &one.Job, "", false)},
		{s.root.history("tst_2", 0), encodeEvents([]job.Event{one.Event})},
	} {
		if _, err := raw.Create(n.path, n.data, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	group := func() ([]*call, []error) {
		return creations(t.Context(), newJob("tst_1"), newJob("tst_2"), newJob("tst_3"))
	}
	calls, _ := group()
	s.mu.Lock()
	_, again := s.attempt(calls)
	s.mu.Unlock()
	if exists, _, err := raw.Exists("/stagepost/jobs/tst_1"); exists || err != nil || !again {
		t.Fatalf("the control: exists=%v, %v; again=%v", exists, err, again)
	}
	calls, errs := group()
	s.carryOut(calls)
	for i := range calls {
		if err := errorOf(calls[i], errs[i]); err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
	for _, id := range []string{"tst_1", "tst_2", "tst_3"} {
		if exists, _, err := raw.Exists(s.root.job(job.ID(id))); !exists || err != nil {
			t.Errorf("%s: exists=%v, %v", id, exists, err)
		}
	}
}

// A caller that leaves before its call was taken changes nothing.
func TestLeft(t *testing.T) {
	s, _ := grouped(t)
	s.turn <- struct{}{} // another call is carried out
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Create(ctx, newJob("tst_1")); job.KindOf(err) != job.Unavailable {
		t.Errorf("error %v", err)
	}
	<-s.turn
	if _, err := s.Create(t.Context(), newJob("tst_2")); err != nil {
		t.Error(err)
	}
	if _, err := s.Get(t.Context(), "tst_1"); job.KindOf(err) != job.NotFound {
		t.Errorf("the job of a caller that left: %v", err)
	}
}

func sound(t *testing.T, s job.Store) {
	t.Helper()
	for _, fault := range storetest.Check(context.WithoutCancel(t.Context()), s, storetest.Step, storetest.Batch) {
		t.Error(fault)
	}
}
