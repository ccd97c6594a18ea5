package server

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestNoTokenInTheLog: the log of a fault has the half of a token that finds the job, not the half that opens the
// package. The control is another path.
func TestNoTokenInTheLog(t *testing.T) {
	public, secret := strings.Repeat("a", 26), strings.Repeat("s", 26)
	for path, want := range map[string]string{
		"/api/v1/access/" + public + secret:              "/api/v1/access/" + public + "***",
		"/api/v1/access/" + public + secret + "/content": "/api/v1/access/" + public + "***",
		"/api/v1/jobs/" + public + secret:                "/api/v1/jobs/" + public + secret,
	} {
		var log bytes.Buffer
		s := &Server{all: []Route{{Pattern: "/api/v1/access/{token}"}},
			Options: Options{Log: slog.New(slog.NewJSONHandler(&log, nil))}}
		s.fail(httptest.NewRecorder(), httptest.NewRequest("GET", path, nil), errors.New("a fault"))
		if !strings.Contains(log.String(), `"path":"`+want+`"`) {
			t.Errorf("%s: got %s", path, log.String())
		}
	}
}
