package host

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/history"
	"github.com/stagepost/stagepost/host/stores"
	"github.com/stagepost/stagepost/job"
)

// metricsOf returns the metrics of a server.
func metricsOf(t *testing.T, r *Server) string {
	t.Helper()
	answer, err := http.Get(r.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// holdAll enters a hold in the audit log of a server.
func holdAll(t *testing.T, r *Server, why string) {
	t.Helper()
	api, err := client.New(r.URL, client.Options{})
	if err == nil {
		_, err = api.Hold(t.Context(), client.Hold{Scope: job.Scope{Group: "maps"}, Why: why})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// againstCheckpoints compares a data directory without a server with its checkpoints, and histories with records.
func againstCheckpoints(t *testing.T, s *Settings, key string) (r history.Report, faults []string) {
	t.Helper()
	o, err := s.Existing(s.Data)
	if err != nil {
		t.Fatal(err)
	}
	store, err := stores.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Closer.Close(); err != nil {
			t.Error(err)
		}
	}()
	d := &Maintenance{Store: store, Dir: o.Files, Settings: s}
	var export bytes.Buffer
	if err := d.Export(t.Context(), &export); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(filepath.Join(o.Files, CheckpointsName))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err = history.VerifyCheckpoints(t.Context(), bytes.NewReader(export.Bytes()), int64(export.Len()), file,
		[]string{key}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	found, err := d.Verify(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return r, found.Faults
}

// TestServerCheckpoints: a server signs a checkpoint at its start and when it stops, and shows its public key. A person
// who changes the audit log in the database and computes its hash anew is found by them, and only by them.
func TestServerCheckpoints(t *testing.T) {
	s := NewSettings()
	s.Data, s.Listen = t.TempDir(), "127.0.0.1:0"
	var r *Server
	for _, why := range []string{"one", "two"} {
		var err error
		if r, err = Start(t.Context(), s, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		holdAll(t, r, why)
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	key, err := r.signed.Key()
	if err != nil {
		t.Fatal(err)
	}
	last, err := r.signed.Last()
	if err != nil || last.Audit != 2 {
		t.Errorf("at the stop: %+v, %v", last, err)
	}
	if info, err := os.Stat(filepath.Join(s.Data, signingKeyName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", info, err)
	}
	if r, faults := againstCheckpoints(t, s, key); r.Count != 0 || r.Checkpoints < 2 || len(faults) > 0 {
		t.Fatalf("control: %+v, %q", r, faults)
	}
	forge(t, s, 2)
	got, faults := againstCheckpoints(t, s, key)
	if got.Count != 1 || !strings.Contains(got.Faults[0].What, "was replaced after checkpoint") || got.First == 0 {
		t.Errorf("got %+v", got)
	}
	if len(faults) > 0 {
		t.Errorf("control: it is found without checkpoints: %q", faults)
	}
	if r, err = Start(t.Context(), s, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Stop() })
	_ = r.signed.Round(t.Context())
	if text := metricsOf(t, r); !strings.Contains(text, "stagepost_checkpoint_last_timestamp_seconds") ||
		!strings.Contains(text, "stagepost_checkpoint_failures_total") ||
		strings.Contains(text, "stagepost_checkpoint_failures_total 0") {
		t.Errorf("no failure is counted:\n%s", text)
	}
	api, err := client.New(r.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h, err := api.Health(t.Context())
	if all := strings.Join(h.Warnings, "\n"); err != nil || !strings.Contains(all, "do not extend checkpoint") ||
		h.CheckpointKey != key {
		t.Errorf("key %q, warnings: %s, %v", h.CheckpointKey, all, err)
	}
	answer, err := http.Get(r.URL + "/audit")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var page bytes.Buffer
	if _, err := page.ReadFrom(answer.Body); err != nil || !strings.Contains(page.String(), key[:30]) {
		t.Errorf("the page about the audit log has no key: %v", err)
	}
}

// forge changes an entry of the audit log in the database and computes its hash anew.
func forge(t *testing.T, s *Settings, seq int64) {
	t.Helper()
	o, err := s.Existing(s.Data)
	if err != nil {
		t.Fatal(err)
	}
	store, err := stores.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	log, err := store.Jobs.Audit(t.Context(), seq-1, 1)
	if err = errors.Join(err, store.Closer.Close()); err != nil || len(log) != 1 {
		t.Fatal(log, err)
	}
	was := log[0].Hash.String()
	log[0].Note = "forged"
	log[0].Seal(log[0].Prev)
	db, err := sql.Open("sqlite", filepath.Join(s.Data, stores.SQLiteFile))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec("UPDATE audit SET note = ?, hash = ? WHERE a = ?", log[0].Note, log[0].Hash[:], seq)
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(s.Data, "head") // it repeats the hash, with a checksum for each slot
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for slot := text; len(slot) > 0; slot = slot[min(4096, len(slot)):] {
		body, _, found := bytes.Cut(slot[:min(512, len(slot))], []byte("sum="))
		if !found {
			continue
		}
		body = bytes.Replace(body, []byte(was), []byte(log[0].Hash.String()), 1)
		sum := crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))
		copy(slot, fmt.Appendf(nil, "%ssum=%d%*s", body, sum, 12, "\n"))
	}
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSharedCheckpoints: of the servers on a store, only the one that leads signs, with the key that they share. When
// it ends, the other one continues the file.
func TestSharedCheckpoints(t *testing.T) {
	store, shared := newDatabase(t), t.TempDir()
	var servers []*Server
	var s *Settings
	for range 2 {
		s = NewSettings()
		s.Data, s.Listen, s.Store, s.Shared = t.TempDir(), "127.0.0.1:0", store, shared
		r, err := Start(t.Context(), s, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		for len(servers) == 0 && !r.Engine.Leads() { // the time limit of the test ends it
			time.Sleep(time.Millisecond)
		}
		servers = append(servers, r)
	}
	if err := servers[0].signed.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
	key, err := servers[0].signed.Key()
	if err != nil {
		t.Fatal(err)
	}
	if other, err := servers[1].signed.Key(); err != nil || other != key {
		t.Errorf("the other server has the key %q, %v", other, err)
	}
	last := func() int64 {
		c, err := servers[1].signed.Last()
		if err != nil {
			t.Fatal(err)
		}
		return c.Number
	}
	before := last()
	holdAll(t, servers[1], "one")
	servers[1].lastCheckpoint()
	if n := last(); n != before {
		t.Errorf("a server that does not lead signed checkpoint %d", n)
	}
	if err := servers[0].Stop(); err != nil {
		t.Fatal(err)
	}
	if n := last(); n != before+1 {
		t.Errorf("the server that leads ended with checkpoint %d, want %d", n, before+1)
	}
	for !servers[1].Engine.Leads() {
		time.Sleep(time.Millisecond)
	}
	holdAll(t, servers[1], "two")
	if err := servers[1].Stop(); err != nil {
		t.Fatal(err)
	}
	if r, faults := againstCheckpoints(t, s, key); r.Count != 0 || r.Checkpoints != before+2 || len(faults) > 0 {
		t.Errorf("%+v, %q", r, faults)
	}
}

// TestCheckpointsOff: off signs none and makes no key.
func TestCheckpointsOff(t *testing.T) {
	s := NewSettings()
	s.Data, s.Listen, s.CheckpointEvery = t.TempDir(), "127.0.0.1:0", 0
	r, err := Start(context.Background(), s, slog.New(slog.DiscardHandler))
	if err == nil {
		err = r.Stop()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{CheckpointsName, signingKeyName} {
		if _, err := os.Stat(filepath.Join(s.Data, name)); err == nil {
			t.Errorf("there is %s", name)
		}
	}
}
