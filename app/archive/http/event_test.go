package archivehttp_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/edge/webhook"
)

const aSecret, anEvent = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", `{"type": "exam.ended", "course": "maps"}`

// secret writes the file with the secret of the receivers.
func (h *harness) secret() webhook.Secret {
	h.T.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, "secret"), []byte(aSecret), 0o600); err != nil {
		h.T.Fatal(err)
	}
	secret, err := webhook.ParseSecret(aSecret)
	if err != nil {
		h.T.Fatal(err)
	}
	return secret
}

// TestEvent: a signed event starts a job without a token; one that is not signed is refused, and starts none.
func TestEvent(t *testing.T) {
	h := open(t)
	secret := h.secret()
	for _, c := range []struct {
		path   string
		signed bool
		want   int
	}{
		{"exams", false, http.StatusUnauthorized}, {"other", true, http.StatusUnauthorized},
		{"exams", true, http.StatusAccepted},
	} {
		r := h.Request(http.MethodPost, "/api/v1/archive/events/"+c.path, anEvent)
		if c.signed {
			webhook.SetHeader(r.Header, "id", time.Now(), []byte(anEvent), secret)
		}
		answer, got := h.Ask(r)
		if answer.StatusCode != c.want || strings.Contains(got, `"job":"arc_`) != (c.want == http.StatusAccepted) {
			t.Errorf("%s, signed %t: %d %s", c.path, c.signed, answer.StatusCode, got)
		}
	}
}

// TestEventLater: an event over the limit of its receiver gets 429, and one whose source cannot be read 503, each with
// the seconds after which the sender sends it again. Neither starts a job. The controls are the events before and
// after.
func TestEventLater(t *testing.T) {
	h := open(t)
	secret := h.secret()
	send := func(receiver, id string, want int) (after int) {
		t.Helper()
		r := h.Request(http.MethodPost, "/api/v1/archive/events/"+receiver, anEvent)
		webhook.SetHeader(r.Header, id, time.Now(), []byte(anEvent), secret)
		answer, text := h.Ask(r)
		if answer.StatusCode != want || strings.Contains(text, `"job":"arc_`) != (want == http.StatusAccepted) {
			t.Errorf("%s of %s: got %s, want %d: %s", id, receiver, answer.Status, want, text)
		}
		value := answer.Header.Get("Retry-After")
		if want == http.StatusAccepted {
			if value != "" {
				t.Errorf("%s of %s: Retry-After %s", id, receiver, value)
			}
			return 0
		}
		after, err := strconv.Atoi(value)
		if err != nil || !strings.Contains(text, "send") {
			t.Errorf("%s of %s: Retry-After %q: %s", id, receiver, value, text)
		}
		return after
	}
	send("few", "1", http.StatusAccepted)
	if after := send("few", "2", http.StatusTooManyRequests); after < 1 || after > 61 {
		t.Errorf("over the limit: again after %d s", after)
	}
	send("exams", "3", http.StatusAccepted) // the limit of another receiver is another
	h.disk.down.Store(true)
	if after := send("exams", "4", http.StatusServiceUnavailable); after != 60 {
		t.Errorf("without the source: again after %d s", after)
	}
	send("exams", "3", http.StatusAccepted) // a repetition of an event that has its job
	h.disk.down.Store(false)
	send("exams", "4", http.StatusAccepted)
}
