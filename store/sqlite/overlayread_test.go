package sqlite

import (
	"errors"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/storetest"
)

// auditAndNames are the results of the reads of the audit log and of parts of ids, for many parameters.
func auditAndNames(t *testing.T, s *Store) (all []any) {
	t.Helper()
	for _, n := range []int{-1, -2, -3, -5, -100, 1, 2, 3, 100} {
		for seq := range int64(9) {
			list, err := s.Audit(t.Context(), seq, n)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, list)
		}
	}
	for _, part := range []string{"tst_", "tst_2", "2", "new", "none", ""} {
		ids, err := s.IDs(t.Context(), part)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, ids)
		for _, n := range []int{1, 2, 3, 100} {
			for _, owner := range []string{"", "ann", "nobody"} {
				jobs, err := s.Named(t.Context(), part, owner, n)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, jobs)
			}
		}
	}
	return all
}

// Reads of the audit log and of parts of ids see what is in the log alone, and do not wait for the applier. The result
// is the same while it is in no generation, in both, or in the database. The control: a check waits for the applier.
func TestReadsDoNotWaitForApplier(t *testing.T) {
	s := openStore(t, t.TempDir(), unapplied())
	frontWorkload(t, s)
	note := func(object string) {
		t.Helper()
		err := s.Note(t.Context(), job.Audit{Actor: "olga", Event: "set", Object: object, At: testTime})
		if err != nil {
			t.Fatal(err)
		}
	}
	note("first")
	if err := s.applier.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	note("second")
	owned := newJob(storetest.Step, "tst_a", testTime, func(j *job.Job) { j.Owner = "ann" })
	if _, err := s.Create(t.Context(), owned); err != nil {
		t.Fatal(err)
	}
	s.writer.Lock() // the applier waits for it
	checked := make(chan error, 1)
	go func() {
		_, _, err := s.Verify(t.Context(), "", lives, func(job.ID, error) {})
		checked <- err
	}()
	for waits := false; !waits; runtime.Gosched() {
		s.overlay.mu.RLock()
		waits = s.overlay.applying != nil
		s.overlay.mu.RUnlock()
	}
	for _, id := range []job.ID{"tst_2", "tst_a"} { // both generations have the second one
		message := "changed"
		results, err := s.Commit(t.Context(), job.Change{Job: id, Version: moved(t, s, id).Version, At: testTime,
			Set: job.Fields{Message: &message}})
		if err = errors.Join(err, results[0].Err); err != nil {
			t.Fatal(err)
		}
	}
	create(t, s, "tst_new2")
	note("third")
	before := auditAndNames(t, s)
	select {
	case err := <-checked:
		t.Errorf("a check did not wait for the applier: %v", err)
	default:
	}
	s.writer.Unlock()
	if err := errors.Join(<-checked, s.applier.flush(t.Context())); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(auditAndNames(t, s), before); diff != "" {
		t.Errorf("(-database +log):\n%s", diff)
	}
	if list, err := s.Audit(t.Context(), 0, 100); err != nil || len(list) < 6 || job.VerifyAudit(nil, list) != nil {
		t.Errorf("%d entries, %v", len(list), err)
	}
	clean(t, s)
}
