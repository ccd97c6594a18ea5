package archivehttp_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/edge/webhook"
)

// TestEvent: a signed event starts a job without a token; one that is not signed is refused, and starts none.
func TestEvent(t *testing.T) {
	h := open(t)
	const text, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", `{"type": "exam.ended", "course": "maps"}`
	if err := os.WriteFile(filepath.Join(h.dir, "secret"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	secret, err := webhook.ParseSecret(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path   string
		signed bool
		want   int
	}{
		{"exams", false, http.StatusUnauthorized}, {"other", true, http.StatusUnauthorized},
		{"exams", true, http.StatusAccepted},
	} {
		r := h.Request(http.MethodPost, "/api/v1/archive/events/"+c.path, body)
		if c.signed {
			webhook.SetHeader(r.Header, "id", time.Now(), []byte(body), secret)
		}
		answer, got := h.Ask(r)
		if answer.StatusCode != c.want || strings.Contains(got, `"job":"arc_`) != (c.want == http.StatusAccepted) {
			t.Errorf("%s, signed %t: %d %s", c.path, c.signed, answer.StatusCode, got)
		}
	}
}
