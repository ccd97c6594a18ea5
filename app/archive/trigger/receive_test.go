package trigger

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/edge/webhook"
	"github.com/stagepost/stagepost/job"
)

// sender signs events for the receiver exams.
type sender struct {
	h      *harness
	secret webhook.Secret
}

// receiving adds the receiver exams to the configuration.
func receiving(h *harness, change func(*Receiver)) sender {
	h.t.Helper()
	text, err := webhook.NewSecret(rand.Reader)
	if err != nil {
		h.t.Fatal(err)
	}
	file := filepath.Join(h.t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		h.t.Fatal(err)
	}
	secret, err := webhook.ParseSecret(text)
	if err != nil {
		h.t.Fatal(err)
	}
	r := &Receiver{Source: "campus", SecretFile: file}
	if change != nil {
		change(r)
	}
	h.mu.Lock()
	h.receivers["exams"] = r
	h.mu.Unlock()
	return sender{h, secret}
}

// send sends a body under an id, signed some time ago.
func (s sender) send(id, body string, ago time.Duration) (job.Job, error) {
	header := http.Header{}
	webhook.SetHeader(header, id, time.Now().Add(-ago), []byte(body), s.secret)
	return s.h.Receive(s.h.t.Context(), "exams", header, strings.NewReader(body))
}

// TestReceive: an event starts one job, however often it is sent. Its job begins at the time of the event.
func TestReceive(t *testing.T) {
	bubble(t, func(h *harness) {
		s := receiving(h, nil)
		after := time.Now().Add(3 * time.Hour)
		body := `{"type": "exam.ended", "course": "5", "activities": ["51"], "after": "` + stamp(after) + `"}`
		first, err := s.send("one", body, 0)
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.send("one", body, time.Minute)
		if err != nil || again.ID != first.ID {
			t.Fatalf("again: %s, %v", again.ID, err)
		}
		if _, err := s.send("one", strings.Replace(body, "51", "52", 1), 0); job.KindOf(err) != job.Conflict {
			t.Errorf("another event with the id: %v", err)
		}
		time.Sleep(2 * time.Hour)
		if j, err := h.store.Get(t.Context(), first.ID); err != nil || j.State != archive.Uninitialized {
			t.Errorf("until then it is %s (%v)", j.State, err)
		}
		if j := h.end(first.ID); j.State != archive.Completed || j.Changed.Before(after) || j.Owner != "event/exams" {
			t.Errorf("%s at %s of %s: %s", j.State, j.Changed, j.Owner, j.Message)
		}
		if n := len(h.archives()); n != 1 {
			t.Errorf("%d jobs", n)
		}
	})
}

// TestReceiveRefuses: what is not signed, is too old or too large, or names what may not be archived starts no job. The
// control is the same event without the fault.
func TestReceiveRefuses(t *testing.T) {
	const good = `{"type": "exam.ended", "course": "6"}`
	bubble(t, func(h *harness) {
		s := receiving(h, func(r *Receiver) { r.Courses, r.Categories = []string{"5", "6", "404"}, []string{"1"} })
		for i, c := range []struct {
			body string
			ago  time.Duration
			want job.ErrorKind
		}{
			{good, 6 * time.Minute, job.Refused},
			{good, -6 * time.Minute, job.Refused},
			{`{"type": "exam.ended", "course": "5"}`, 0, job.Refused},   // in no category of the receiver
			{`{"type": "exam.ended", "course": "404"}`, 0, job.Refused}, // does not exist
			{`{"type": "exam.ended", "course": "7"}`, 0, job.Refused},   // not in the list
			{`{"type": "exam.ended"}`, 0, job.Invalid},
			{`{"course": "6"}`, 0, job.Invalid},
			{`{"type": "exam.ended", "course": "6", "source": "other"}`, 0, job.Invalid},
			{good + good, 0, job.Invalid},
			{`[]`, 0, job.Invalid},
			{good + strings.Repeat(" ", MaxEvent), 0, job.Invalid},
			{`{"type": "exam.ended", "course": "6", "after": "2001-01-01T00:00:00Z"}`, 0, job.Invalid},
		} {
			if _, err := s.send("id", c.body, c.ago); job.KindOf(err) != c.want {
				t.Errorf("%d: %v, want %s", i, err, c.want)
			}
		}
		header := http.Header{}
		webhook.SetHeader(header, "id", time.Now(), []byte(good), s.secret)
		for name, body := range map[string]string{"other": good, "exams": good + " "} {
			if _, err := h.Receive(t.Context(), name, header, strings.NewReader(body)); !errors.Is(err, ErrSignature) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := len(h.archives()); n != 0 {
			t.Fatalf("%d jobs", n)
		}
		if _, err := s.send("id", good, 0); err != nil {
			t.Errorf("control: %v", err)
		}
		if _, err := s.send("i d", good, 0); !errors.Is(err, ErrSignature) {
			t.Errorf("id with a blank: %v", err)
		}
	})
}

// TestReceiveSourceDown: while the source cannot be read, the sender is asked to try again.
func TestReceiveSourceDown(t *testing.T) {
	bubble(t, func(h *harness) {
		s := receiving(h, nil)
		h.options.Sources = down{h.fake}
		if _, err := s.send("id", `{"type": "t", "course": "6"}`, 0); job.KindOf(err) != job.Unavailable {
			t.Errorf("got %v", err)
		}
		h.options.Sources = h.fake
		if _, err := s.send("id", `{"type": "t", "course": "6"}`, 0); err != nil {
			t.Errorf("control: %v", err)
		}
	})
}

// FuzzEvent: no body makes the parser panic, and what it accepts has a course.
func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"type": "t", "course": "6", "after": "2001-01-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r := Receiver{}
		if e, err := r.parse(body, time.Unix(1e9, 0)); err == nil && (e.Course == "" || e.Type == "") {
			t.Errorf("%q is accepted", body)
		}
	})
}

// down is a source that cannot be read.
type down struct{ *fake }

func (d down) Source(string) (source.Source, error) { return d, nil }

func (d down) Courses(context.Context, []string) ([]source.Course, error) {
	return nil, &source.Error{Op: "courses", Err: errors.New("busy"), Transient: true}
}
