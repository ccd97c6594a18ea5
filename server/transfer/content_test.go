package transfer

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/server/problem"
)

// TestRanges: a suffix of no bytes does not exist, alone or beside others (RFC 9110, section 14.1.2).
func TestRanges(t *testing.T) {
	for asked, want := range map[string]string{
		"bytes=-0": "416", "bytes=-000": "416", "bytes=-0, -0": "416", "bytes=10-": "416",
		"bytes=-1": "206 bytes 9-9/10 9", "bytes=-0,0-1": "206 bytes 0-1/10 01", "bytes=0-0": "206 bytes 0-0/10 0",
		"bytes=-010": "206 bytes 0-9/10 0123456789", "bytes=5-,-0": "206 bytes 5-9/10 56789",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Range", asked)
		w := httptest.NewRecorder()
		err := Serve(w, r, slog.New(slog.DiscardHandler), "x", time.Time{}, strings.NewReader("0123456789"))
		var got string
		if err != nil {
			p := problem.Of(err)
			if !strings.Contains(p.Detail, asked) {
				t.Errorf("%s: the refusal does not name it: %s", asked, p.Detail)
			}
			got = "416"
			if p.Status != http.StatusRequestedRangeNotSatisfiable {
				t.Errorf("%s: status %d", asked, p.Status)
			}
		} else {
			got = "206 " + w.Header().Get("Content-Range") + " " + w.Body.String()
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", asked, got, want)
		}
	}
}
