package ingesthttp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// shelf has profiles as the application has them.
type shelf struct {
	*profile.Live
	dir         string
	actor, note string
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	s := &shelf{dir: t.TempDir()}
	s.put(t, "id: maps\nowner: library\ncallback:\n  url: https://ann@example.org/x?token=hush\n")
	var err error
	if s.Live, err = profile.Open(s.dir, time.Now); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *shelf) put(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "maps.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s *shelf) ProfileIDs() []string { return s.IDs() }

func (s *shelf) Profile(id string) (*profile.Profile, error) {
	if p, ok := s.Get(id); ok {
		return p, nil
	}
	return nil, job.Errorf(job.NotFound, "profile", "", "there is no profile %q", id)
}

func (s *shelf) ProfileStatus() (profile.Status, bool) { return s.Status(), true }

func (s *shelf) ReloadProfiles(_ context.Context, actor, note string) (profile.Change, error) {
	s.actor, s.note = actor, note
	c, err := s.Reload()
	if err != nil {
		err = &job.Error{Op: "reload", Kind: job.Refused, Err: err}
	}
	return c, err
}

func TestProfiles(t *testing.T) {
	s := newShelf(t)
	w := open(t, func(o *options) { o.Profiles = s }, nil)
	all, err := w.Client.Profiles(t.Context())
	if err != nil || len(all.Profiles) != 2 || all.Profiles[1].Owner != "library" || all.Status == nil ||
		all.Status.Fault != "" {
		t.Errorf("got %+v, %v", all, err)
	}
	one, err := w.Client.Profile(t.Context(), "maps")
	if err != nil || one.ID != "maps" ||
		one.Values[0] != (client.ProfileValue{Key: "id", Value: "maps", Origin: one.File +
			":1", Doc: one.Values[0].Doc}) {
		t.Errorf("got %+v, %v", one, err)
	}
	if _, err := w.Client.Profile(t.Context(), "../maps"); job.KindOf(err) != job.NotFound {
		t.Errorf("got %v", err)
	}
	_, text := w.Ask(w.Request(http.MethodGet, "/api/v1/ingest/profiles/maps", ""))
	if strings.Contains(text, "hush") || !strings.Contains(text, `?***"`) {
		t.Errorf("got %s", text)
	}
	schema, err := w.Client.ProfileSchema(t.Context())
	var got, want any
	if err := json.Unmarshal(schema, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(profile.Schema(), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// TestReloadProfiles: a valid directory is taken over, a broken one is refused and shown, and the server goes on.
func TestReloadProfiles(t *testing.T) {
	s := newShelf(t)
	w := open(t, func(o *options) { o.Profiles = s }, nil)
	if h, err := w.Client.Health(t.Context()); err != nil || len(h.Warnings) > 0 {
		t.Errorf("control: got %+v, %v", h, err)
	}
	s.put(t, "id: maps\nowner: archive\n")
	c, err := w.Client.ReloadProfiles(t.Context(), client.ReloadProfiles{Actor: "ann", Note: "moved"})
	if err != nil || !cmp.Equal(c, client.ProfileChange{Added: []string{}, Changed: []string{"maps"},
		Removed: []string{}}) || s.actor != "ann" || s.note != "moved" {
		t.Errorf("got %+v, %v by %s for %s", c, err, s.actor, s.note)
	}
	s.put(t, "id: maps\nowner: [hush]\n")
	_, err = w.Client.ReloadProfiles(t.Context(), client.ReloadProfiles{})
	if job.KindOf(err) != job.Refused || !strings.Contains(err.Error(), "maps.yaml:2:1: owner: it must be a text") ||
		s.actor != "operator" {
		t.Errorf("got %v by %s", err, s.actor)
	}
	h, err := w.Client.Health(t.Context())
	if err != nil || h.Status != "ok" || len(h.Warnings) != 1 ||
		!strings.Contains(h.Warnings[0], "profile list") || strings.Contains(h.Warnings[0], s.dir) {
		t.Errorf("got %+v, %v", h, err)
	}
	all, err := w.Client.Profiles(t.Context())
	if err != nil || all.Profiles[1].Owner != "archive" || all.Status.Since.IsZero() ||
		!strings.Contains(all.Status.Fault, "maps.yaml:2:1") {
		t.Errorf("got %+v, %v", all, err)
	}
}

func TestNoProfiles(t *testing.T) {
	w := open(t, nil, nil)
	if _, err := w.Client.Profiles(t.Context()); job.KindOf(err) != job.NotFound {
		t.Errorf("got %v", err)
	}
}
