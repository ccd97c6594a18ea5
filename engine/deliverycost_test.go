package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// searched counts the searches for due messages.
type searched struct {
	job.Store
	n atomic.Int64
}

func (s *searched) Take(ctx context.Context, t job.Taking) ([]job.Message, error) {
	s.n.Add(1)
	return s.Store.Take(ctx, t)
}

// TestCommitsWithoutMessagesSearchForNone works off jobs while no time passes, so the sweep does not search either.
// Each search is an operation of the store: one for each topic after each commit made half of all operations. The jobs
// that write a message are the control: the topic of the message is searched, and the message delivered.
func TestCommitsWithoutMessagesSearchForNone(t *testing.T) {
	for _, mails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, p := &searched{Store: mem.New()}, &postbox{}
			work := mailing(takes(0))
			if !mails {
				work.Steps["Riding"] = takes(0)
			}
			w := start(t, s, p.options(), work)
			defer w.stop()
			synctest.Wait()
			before := s.n.Load()
			for range 10 {
				w.end(w.post(engine.Order{}).ID)
			}
			synctest.Wait()
			if n := s.n.Load() - before; (n > 0) != mails {
				t.Errorf("with messages: %t: %d searches for messages after 10 jobs", mails, n)
			}
			if got := len(p.keys()); mails && got != 10 {
				t.Errorf("control: %d messages were delivered", got)
			}
		})
	}
}
