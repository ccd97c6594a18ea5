package host

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/format/rfc3161/authority"
	"github.com/stagepost/stagepost/history"
	"github.com/stagepost/stagepost/job"
)

// TestServerAnchors: a server stamps its histories at its start, an export over the API is good, and an authority that
// fails is a warning.
func TestServerAnchors(t *testing.T) {
	a, err := authority.New("office", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var down atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		a.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	s := NewSettings()
	s.Data, s.Listen, s.AnchorURL = t.TempDir(), "127.0.0.1:0", web.URL
	s.AnchorRoots = filepath.Join(t.TempDir(), "root.pem")
	if err := os.WriteFile(s.AnchorRoots, a.RootPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Start(t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Stop() })
	for r.anchors.State().Stamped.IsZero() { // the time limit of the test ends it
		time.Sleep(time.Millisecond)
	}
	api, err := client.New(r.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := api.Export(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	report, err := history.Verify(t.Context(), bytes.NewReader(out.Bytes()), int64(out.Len()), a.Verifier(), time.Now())
	if err != nil || report.Count != 0 || len(report.Stamps) != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	if h, err := api.Health(t.Context()); err != nil || len(h.Warnings) > 0 {
		t.Errorf("control: %v, %v", h.Warnings, err)
	}
	down.Store(true)
	for _, name := range []string{".tsr", ".tsq", ".tst", ".pem"} {
		if err := os.Remove(filepath.Join(r.Data, anchorsName, "00000001.txt"+name)); err != nil {
			t.Fatal(err)
		}
	}
	if r.anchors.Round(t.Context()) == nil {
		t.Error("the authority is down, and the round succeeds")
	}
	h, err := api.Health(t.Context())
	if all := strings.Join(h.Warnings, "\n"); err != nil || !strings.Contains(all, "503") {
		t.Errorf("warnings: %s, %v", all, err)
	}
}

// TestSharedAnchors: of the servers on a store, the one that leads makes the anchors, in the directory that they share.
// An export by the other one is good.
func TestSharedAnchors(t *testing.T) {
	a, err := authority.New("office", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(a)
	t.Cleanup(web.Close)
	root := filepath.Join(t.TempDir(), "root.pem")
	if err := os.WriteFile(root, a.RootPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	store, shared := newDatabase(t), t.TempDir()
	var servers []*Server
	for range 2 {
		s := NewSettings()
		s.Data, s.Listen, s.Store, s.Shared = t.TempDir(), "127.0.0.1:0", store, shared
		s.AnchorURL, s.AnchorRoots = web.URL, root
		r, err := Start(t.Context(), s, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Stop() })
		for len(servers) == 0 && !r.Engine.Leads() { // the time limit of the test ends it
			time.Sleep(time.Millisecond)
		}
		servers = append(servers, r)
	}
	api, err := client.New(servers[1].URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.Hold(t.Context(), client.Hold{Scope: job.Scope{Group: "maps"}, Why: "wait"}); err != nil {
		t.Fatal(err)
	}
	if err := servers[0].anchors.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := api.Export(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	report, err := history.Verify(t.Context(), bytes.NewReader(out.Bytes()), int64(out.Len()), a.Verifier(), time.Now())
	if err != nil || report.Count != 0 || len(report.Stamps) != 1 || report.Audit == 0 {
		t.Errorf("%+v, %v", report, err)
	}
	if _, err := os.Stat(filepath.Join(shared, anchorsName, "00000001.txt.tsr")); err != nil {
		t.Error(err)
	}
}

// TestAnchorSettings: settings that cannot work are refused, and off makes no anchors.
func TestAnchorSettings(t *testing.T) {
	for name, change := range map[string]func(*Settings){
		"roots alone":  func(s *Settings) { s.AnchorRoots = "root.pem" },
		"no roots":     func(s *Settings) { s.AnchorURL = "http://127.0.0.1:1/" },
		"missing file": func(s *Settings) { s.AnchorURL, s.AnchorRoots = "http://127.0.0.1:1/", "missing.pem" },
	} {
		s := NewSettings()
		if change(s); func() error { _, err := s.authorities(); return err }() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	s := NewSettings()
	s.Data, s.Listen, s.AnchorEvery = t.TempDir(), "127.0.0.1:0", 0
	r, err := Start(t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Stop() })
	if r.anchors != nil {
		t.Error("off makes anchors")
	}
}
