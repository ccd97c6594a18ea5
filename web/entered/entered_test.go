package entered

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
)

// TestAddress: a form that was refused is sent again to the same address, whatever the names in it contain.
func TestAddress(t *testing.T) {
	const path = "/archive/lists/maps%2F1%3Fa%23b%25"
	r := httptest.NewRequest(http.MethodPost, path, nil)
	f := Of(r, &api.Problem{Kind: job.Invalid, Status: http.StatusBadRequest}, url.Values{"note": {"a correction"}})
	if f == nil || !f.Again || f.Action != path {
		t.Errorf("got %+v", f)
	}
}

// TestRead: of a form that no handler has read, the fields are read as far as a page shows them, and no file. What is
// cut off has no last field, which may be a part of one.
func TestRead(t *testing.T) {
	long := strings.Repeat("x", 2*most)
	parts := "--b\r\nContent-Disposition: form-data; name=note\r\n\r\nwhy\r\n" +
		"--b\r\nContent-Disposition: form-data; name=f; filename=f\r\n\r\ncontent\r\n" +
		"--b\r\nContent-Disposition: form-data; name=after\r\n\r\nx\r\n--b--\r\n"
	for name, c := range map[string]struct{ method, media, body, want string }{
		"form":     {"POST", "application/x-www-form-urlencoded", "a=1&note=why", "a=1&note=why"},
		"cut":      {"POST", "application/x-www-form-urlencoded", "a=1&note=" + long, "a=1"},
		"one long": {"POST", "application/x-www-form-urlencoded", "note=" + long, ""},
		"files":    {"POST", "multipart/form-data; boundary=b", parts, "note=why"},
		"no parts": {"POST", "multipart/form-data; boundary=c", parts, ""},
		"unnamed":  {"POST", "multipart/form-data", parts, ""},
		"JSON":     {"POST", "application/json", `{"note":"why"}`, ""},
		"no form":  {"GET", "application/x-www-form-urlencoded", "a=1", ""},
	} {
		r := httptest.NewRequest(c.method, "/", strings.NewReader(c.body))
		r.Header.Set("Content-Type", c.media)
		if got := Read(r).Encode(); got != c.want {
			t.Errorf("%s: got %.60q, want %q", name, got, c.want)
		}
	}
}
