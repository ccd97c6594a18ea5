package answers

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/job"
)

// TestResultsAreEmpty: results are empty whatever they were used for before, and results of other memory do not change.
func TestResultsAreEmpty(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3} {
		for range 100 {
			results := Take(n)
			if len(results) != n {
				t.Fatalf("got %d results, want %d", len(results), n)
			}
			for i := range results {
				if diff := cmp.Diff(job.Result{}, results[i]); diff != "" {
					t.Fatal(diff)
				}
				results[i] = job.Result{Job: job.Job{ID: "j", Tags: []string{"a"}}, Err: errors.New("no")}
			}
			Give(results)
		}
	}
	for _, size := range []int{1, 2, 3} {
		other := append(make([]job.Result, 0, size), job.Result{Job: job.Job{ID: "mine"}})
		if Give(other); other[0].Job.ID != "mine" {
			t.Errorf("results of other memory were emptied: %+v", other)
		}
	}
}

// TestRecordsAreEmpty is TestResultsAreEmpty for records.
func TestRecordsAreEmpty(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3} {
		for range 100 {
			jobs := TakeRecords(n)
			if len(jobs) != n {
				t.Fatalf("got %d records, want %d", len(jobs), n)
			}
			for i := range jobs {
				if diff := cmp.Diff(job.Job{}, jobs[i]); diff != "" {
					t.Fatal(diff)
				}
				jobs[i] = job.Job{ID: "j", Tags: []string{"a"}}
			}
			GiveRecords(jobs)
		}
	}
	for _, size := range []int{1, 2, 3} {
		other := append(make([]job.Job, 0, size), job.Job{ID: "mine"})
		if GiveRecords(other); other[0].ID != "mine" {
			t.Errorf("records of other memory were emptied: %+v", other)
		}
	}
}

// TestOwn: a record shares with the store nothing, and with the record that the caller has what is the same.
func TestOwn(t *testing.T) {
	same := func(a, b []byte) bool { return len(a) > 0 && len(b) > 0 && &a[0] == &b[0] }
	stored := job.Job{Spec: []byte(`{"s":1}`), Data: []byte(`{"d":2}`), Tags: []string{"a=1"}, Requires: []string{"x"}}
	known := job.Job{Spec: []byte(`{"s":1}`), Data: []byte(`{"d":1}`), Tags: []string{"a=1"}, Requires: []string{"y"}}
	results := []job.Result{{Job: stored}, {Job: stored}, {}}
	Own(results, []job.Change{{}, {Known: &known}, {Known: &known}})
	for i := range 2 {
		j := &results[i].Job
		if diff := cmp.Diff(stored, *j); diff != "" {
			t.Errorf("record %d: %s", i, diff)
		}
		if same(j.Spec, stored.Spec) || same(j.Data, stored.Data) || &j.Tags[0] == &stored.Tags[0] ||
			&j.Requires[0] == &stored.Requires[0] {
			t.Errorf("record %d shares memory with the store", i)
		}
		if shares := same(j.Spec, known.Spec) && &j.Tags[0] == &known.Tags[0]; shares != (i == 1) {
			t.Errorf("record %d shares memory with that of the caller: %t", i, shares)
		}
		if same(j.Data, known.Data) || &j.Requires[0] == &known.Requires[0] {
			t.Errorf("record %d has what the caller had", i)
		}
	}
	if diff := cmp.Diff(job.Result{}, results[2]); diff != "" {
		t.Errorf("an empty result has what the caller has: %s", diff)
	}
}
