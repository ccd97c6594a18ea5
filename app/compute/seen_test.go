package compute_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// TestWorkersSeen: the list of workers has the time of an agent's last answer, also of one that is silent.
func TestWorkersSeen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake()
		w := newHarnessOn(t, mem.New(), quick(t), one(f), seldom)
		time.Sleep(time.Hour)
		if age := time.Since(w.app.Workers()[0].Seen); age > 6*time.Second { // it is asked every five
			t.Errorf("it was seen %s ago", age)
		}
		f.mu.Lock()
		f.down = errors.New("no route")
		f.mu.Unlock()
		time.Sleep(time.Minute)
		if age := time.Since(w.app.Workers()[0].Seen); age < 50*time.Second || age > 70*time.Second {
			t.Errorf("the silent one was seen %s ago", age)
		}
	})
}

// TestJobsOfWorker: the list of workers has how many jobs an agent runs, and the tag by which a list finds them.
func TestJobsOfWorker(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake()
		f.auto = false
		w := newHarnessOn(t, mem.New(), quick(t), one(f), seldom)
		j := w.until(w.upload("ada", hello).ID, compute.Running)
		time.Sleep(time.Minute) // it is asked every five seconds
		of := w.app.Workers()[0]
		page, err := w.store.List(t.Context(), job.Query{Tag: of.Tag})
		if err != nil || of.Jobs != 1 || len(page.Jobs) != 1 || page.Jobs[0].ID != j.ID {
			t.Errorf("%+v, %d jobs, %v", of, len(page.Jobs), err)
		}
	})
}
