package app_test

import (
	"flag"
	"os"
	"testing"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/crash"
	"github.com/stagepost/stagepost/store/sqlite"
	"github.com/stagepost/stagepost/store/storetest"
)

var everywhere = flag.Bool("everywhere", false, "TestEveryCrashOnDisk takes every transition of every table; else one walk through each")

// lifeOf gives the table of a kind.
func lifeOf(kind job.Kind) *lifecycle.Table {
	for _, life := range append(lives, storetest.Batch, storetest.Step) {
		if life.Name() == string(kind) {
			return life
		}
	}
	return nil
}

// shelf gives stores on disk, one after another: the one before is closed and thrown away when the next is wanted.
type shelf struct {
	dir   string
	store *sqlite.Store
}

func (s *shelf) open(t *testing.T) (job.Store, func() job.Store) {
	s.clear(t)
	dir, err := os.MkdirTemp("", "crash")
	if err != nil {
		t.Fatal(err)
	}
	s.dir = dir
	s.again(t)
	return s.store, func() job.Store {
		if err := s.store.Close(); err != nil {
			t.Fatal(err)
		}
		s.again(t)
		report, err := s.store.Fsck(t.Context(), lifeOf, false)
		if err != nil || !report.Clean() {
			t.Errorf("fsck: %+v, %v", report.Faults, err)
		}
		return s.store
	}
}

func (s *shelf) again(t *testing.T) {
	var err error
	if s.store, err = sqlite.Open(s.dir, sqlite.Options{}); err != nil {
		t.Fatal(err)
	}
}

func (s *shelf) clear(t *testing.T) {
	if s.store == nil {
		return
	}
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	s.store = nil
}

// The same windows on the embedded store: it is opened again after each, fsck finds nothing, and the job goes on.
func TestEveryCrashOnDisk(t *testing.T) {
	total := crash.Report{Name: "all tables on disk"}
	for _, life := range lives {
		t.Run(life.Name(), func(t *testing.T) {
			s := &shelf{}
			defer s.clear(t)
			workloads := []crash.Workload{crash.Walk(life)}
			if *everywhere {
				workloads = append(workloads, crash.Transitions(life)...)
			}
			for _, w := range workloads {
				report := crash.Enumerate(t, s.open, w)
				if report.Windows == 0 || report.Inconsistent > 0 {
					t.Errorf("%v: %v", report, report.Faults)
				}
				total.Add(report)
			}
		})
	}
	t.Log(total)
}
