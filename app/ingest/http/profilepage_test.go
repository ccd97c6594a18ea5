package ingesthttp_test

import (
	"net/http"
	"strings"
	"testing"

	ingesthttp "github.com/stagepost/stagepost/app/ingest/http"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestProfilePages: the pages have every value with its origin and no secret; a directory that is broken is stated, and
// a form reads it again.
func TestProfilePages(t *testing.T) {
	s := newShelf(t)
	w := open(t, func(o *options) { o.Profiles = s }, nil)
	answer, text := w.page("/profiles")
	if answer.StatusCode != http.StatusOK || !strings.Contains(text, `href="/profiles/maps"`) ||
		!strings.Contains(text, "library") || strings.Contains(text, "was not taken") {
		t.Errorf("got %s: %s", answer.Status, text)
	}
	answer, text = w.page("/profiles/maps")
	if answer.StatusCode != http.StatusOK || strings.Contains(text, "hush") || !strings.Contains(text, "***") ||
		!strings.Contains(text, "maps.yaml:2") || !strings.Contains(text, `href="/lifecycles/ingest.job"`) {
		t.Errorf("got %s: %s", answer.Status, text)
	}
	if answer, _ := w.page("/profiles/none"); answer.StatusCode != http.StatusNotFound {
		t.Errorf("got %s", answer.Status)
	}
	send := func() (*http.Response, string) {
		r := w.Request(http.MethodPost, "/profiles/reload", "note=a+new+collection")
		r.Header.Set("Accept", "text/html")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return w.Ask(r)
	}
	s.put(t, "id: maps\nowner: museum\n")
	if answer, text := send(); answer.StatusCode != http.StatusSeeOther || s.note != "a new collection" {
		t.Errorf("got %s: %s", answer.Status, text)
	}
	if _, text := w.page("/profiles"); !strings.Contains(text, "museum") {
		t.Errorf("the new owner is missing: %s", text)
	}
	s.put(t, "id: maps\nnonsense: <script>alert(1)</script>\n")
	if answer, text := send(); answer.StatusCode != http.StatusConflict || !strings.Contains(text, "nonsense") {
		t.Errorf("a broken directory: got %s: %s", answer.Status, text)
	}
	if _, text := w.page("/profiles"); !strings.Contains(text, "was not taken") || !strings.Contains(text, "museum") ||
		strings.Contains(text, "<script>alert") {
		t.Errorf("the fault is missing: %s", text)
	}
}

// TestWhoseProfiles: a user sees the profiles that it may use, and no page of one.
func TestWhoseProfiles(t *testing.T) {
	s := newShelf(t)
	g := servertest.Guard(t, func(w *servertest.Harness) server.Part {
		return ingesthttp.Part(w.Server, ingesthttp.Options{Profiles: s})
	})
	for role, want := range map[identity.Role][3]bool{identity.Depositor: {false, false, false},
		identity.Operator: {true, true, true}, identity.Auditor: {true, true, false}} {
		ask := func(path string) (*http.Response, string) {
			r := g.With(g.Tokens[role], http.MethodGet, path, "")
			r.Header.Set("Accept", "text/html")
			return g.Ask(r)
		}
		_, list := ask("/profiles")
		one, _ := ask("/profiles/maps")
		if strings.Contains(list, `href="/profiles/maps"`) != want[0] || (one.StatusCode == http.StatusOK) != want[1] ||
			strings.Contains(list, "/profiles/reload") != want[2] {
			t.Errorf("%s: want %v, got %s: %s", role, want, one.Status, list)
		}
	}
}
