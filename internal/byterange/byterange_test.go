package byterange

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestSatisfiable(t *testing.T) {
	for asked, want := range map[string]int{
		"bytes=-0": 416, "bytes=-00": 416, "bytes=-0, -0": 416, "bytes=-0,0-1": 206, "bytes=0-0": 206, "bytes=-2": 206,
		"bytes=9-": 416, "": 200,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if asked != "" {
			r.Header.Set("Range", asked)
		}
		w := httptest.NewRecorder()
		http.ServeContent(w, Satisfiable(r), "", time.Time{}, strings.NewReader("content"))
		if w.Code != want || r.Header.Get("Range") != asked {
			t.Errorf("%q: got %d, want %d; the request has %q", asked, w.Code, want, r.Header.Get("Range"))
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Range", "bytes=-0")
	w := httptest.NewRecorder()
	if http.ServeContent(w, r, "", time.Time{}, strings.NewReader("content")); w.Code == 416 {
		t.Error("control: http.ServeContent refuses a suffix of no bytes by itself")
	}
}
