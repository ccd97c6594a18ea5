package flowhttp

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
)

// TestLooksAreShared: those who examine a flow while it is being read share the next reading, and are not given the one
// that began before they asked; a request that is abandoned stops no one; one that comes later reads anew.
func TestLooksAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, reads, may := newViews(), 0, make(chan bool)
		read := func(context.Context) (*durable.View, error) {
			reads++
			n := reads
			<-may
			return &durable.View{Job: job.Job{Version: int64(n)}}, nil
		}
		got := make(chan int64, 60)
		ask := func(ctx context.Context) {
			v, err := l.share(ctx, "flw_1", read)
			if err != nil {
				got <- -1
				return
			}
			got <- v.Job.Version
		}
		impatient, leave := context.WithCancel(t.Context())
		go ask(impatient)
		synctest.Wait()
		for range 50 {
			go ask(t.Context())
		}
		synctest.Wait()
		leave()
		if n := <-got; n != -1 {
			t.Errorf("who left was given reading %d", n)
		}
		close(may)
		for range 50 {
			if n := <-got; n != 2 {
				t.Errorf("somebody was given reading %d", n)
			}
		}
		synctest.Wait()
		ask(t.Context())
		synctest.Wait()
		if n := <-got; n != 3 || reads != 3 || len(l.now) != 0 {
			t.Errorf("was given reading %d of %d, %d under way", n, reads, len(l.now))
		}
		l.close()
		if ask(t.Context()); <-got != -1 {
			t.Error("a server that has stopped reads on")
		}
	})
}

// TestLookPanics: a defect in reading a flow is an error of those who asked.
func TestLookPanics(t *testing.T) {
	l := newViews()
	defer l.close()
	_, err := l.share(t.Context(), "flw_1", func(context.Context) (*durable.View, error) { panic("oh") })
	if job.KindOf(err) != job.Internal {
		t.Errorf("got %v", err)
	}
}
