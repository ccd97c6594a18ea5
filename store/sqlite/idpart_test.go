package sqlite

import (
	"fmt"
	"testing"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/storetest"
)

// TestIDPartOfAnOwner: the one job of an owner is found by the beginning of its id behind 1,200 newer jobs of others
// whose ids begin alike. The control asks for the jobs of all.
func TestIDPartOfAnOwner(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	owned := func(owner string) func(*job.Job) { return func(j *job.Job) { j.Owner = owner } }
	all := []job.Created{newJob(storetest.Step, "tst_A0", testTime, owned("ann"))}
	for i := range 1200 {
		all = append(all, newJob(storetest.Step, fmt.Sprintf("tst_A%d", 1000+i), testTime, owned("bob")))
	}
	if _, err := s.Create(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
	named := func(owner string, n int) []job.Job {
		all, err := s.Named(t.Context(), "tst_A", owner, n)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if got := named("ann", 11); len(got) != 1 || got[0].ID != "tst_A0" {
		t.Errorf("the owner's: got %d jobs", len(got))
	}
	if got := named("", 11); len(got) != 11 || got[0].ID != "tst_A2199" {
		t.Errorf("the control: got %d jobs", len(got))
	}
	if got := named("eve", 11); len(got) != 0 {
		t.Errorf("of an owner without jobs: got %d", len(got))
	}
}
