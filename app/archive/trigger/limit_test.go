package trigger

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
)

const anEvent = `{"type": "exam.ended", "course": "5"}`

// TestReceiveLimit: events over the limit of a receiver are refused with the time after which the next one is accepted,
// and are accepted then. What is not signed does not count. The control is the event before.
func TestReceiveLimit(t *testing.T) {
	bubble(t, func(h *harness) {
		s := receiving(h, func(r *Receiver) { r.MostPerMinute = 3 })
		for range 9 {
			if _, err := s.send("old", anEvent, time.Hour); !errors.Is(err, ErrSignature) {
				t.Errorf("not signed: %v", err)
			}
		}
		for i := range 3 {
			if _, err := s.send(fmt.Sprint(i), anEvent, 0); err != nil {
				t.Errorf("control: %v", err)
			}
		}
		_, err := s.send("more", anEvent, 0)
		var later *LaterError
		if !errors.As(err, &later) || !later.Many || later.After > 21*time.Second ||
			job.KindOf(err) != job.Unavailable {
			t.Fatalf("over the limit: %v", err)
		}
		time.Sleep(later.After)
		if _, err := s.send("more", anEvent, 0); err != nil {
			t.Errorf("after %s: %v", later.After, err)
		}
	})
}

// TestReceiveWhileDown: while the source cannot be read, an event is refused with a time and a reason, and the receiver
// is a warning; an event that has its job is accepted. When the source is back, the event is accepted and the warning
// ends.
func TestReceiveWhileDown(t *testing.T) {
	bubble(t, func(h *harness) {
		s := receiving(h, nil)
		first, err := s.send("one", anEvent, 0)
		if err != nil {
			t.Fatal(err)
		}
		set := func(err error) {
			h.fake.mu.Lock()
			defer h.fake.mu.Unlock()
			h.fake.gone = err
		}
		set(errors.New("connection refused"))
		for range 2 {
			_, err = s.send("two", anEvent, 0)
			var later *LaterError
			if !errors.As(err, &later) || later.Many || later.After != whileDown ||
				!strings.Contains(err.Error(), "campus cannot be read now") {
				t.Fatalf("while it is down: %v", err)
			}
		}
		if all := h.Warn(); len(all) != 1 || !strings.Contains(all[0], "exams: 2 events refused since") {
			t.Errorf("warnings: %v", all)
		}
		if again, err := s.send("one", anEvent, 0); err != nil || again.ID != first.ID {
			t.Errorf("an event with a job: %s, %v", again.ID, err)
		}
		set(nil)
		if _, err = s.send("two", anEvent, 0); err != nil || len(h.Warn()) != 0 {
			t.Errorf("control: %v, %v", err, h.Warn())
		}
	})
}
