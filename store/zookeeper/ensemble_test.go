package zookeeper_test

import (
	"fmt"
	"testing"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/zookeeper"
	"github.com/stagepost/stagepost/store/zookeeper/zktest"
)

// TestEnsemble ends the leading server of three while jobs are created. Every acknowledged job is there afterwards, and
// one whose result was unknown is created once by the repetition.
func TestEnsemble(t *testing.T) {
	e := zktest.StartEnsemble(t, 3)
	s, err := zookeeper.Open(t.Context(), e.Addresses(), zookeeper.Options{SessionTimeout: 20 * zktest.Tick})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const n = 30
	for i := range n {
		if i%10 == 5 {
			leader := e.Leader(t)
			if leader < 0 {
				t.Fatal("no server leads")
			}
			e.Servers[leader].Kill()
		}
		if i%10 == 9 {
			for _, server := range e.Servers {
				if server.Ended() {
					server.Restart(t)
					server.Raw(t).Close() // it follows
				}
			}
		}
		until(t, func() error { _, err := s.Create(t.Context(), made(fmt.Sprintf("tst_%02d", i), "")); return err })
	}
	jobs, err := s.List(t.Context(), job.Query{Limit: 1000})
	if err != nil || len(jobs.Jobs) != n {
		t.Errorf("%d jobs, %v", len(jobs.Jobs), err)
	}
	for _, j := range jobs.Jobs {
		if history, err := s.History(t.Context(), j.ID, 0, 0); err != nil || len(history) != 1 {
			t.Errorf("%s has %d entries, %v", j.ID, len(history), err)
		}
	}
	sound(t, s)
}
