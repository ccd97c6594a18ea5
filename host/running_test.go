package host

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/job"
)

func startTest(t *testing.T, dir string) *Server {
	t.Helper()
	s := NewSettings()
	s.Data, s.Listen, s.Store = dir, "127.0.0.1:0", "mem"
	r, err := Start(t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func healthOf(t *testing.T, r *Server) int {
	t.Helper()
	answer, err := http.Get(r.URL + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

func TestServerInThisProcess(t *testing.T) {
	dir := t.TempDir()
	r := startTest(t, dir)
	if got := healthOf(t, r); got != http.StatusOK {
		t.Errorf("got %d", got)
	}
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "address")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the address is still there: %v", err)
	}
	if _, err := http.Get(r.URL + "/healthz"); err == nil {
		t.Error("it still answers")
	}
}

// TestServerFails: when the store fails, the server reports it, stops and returns the reason, from which the exit code
// follows.
func TestServerFails(t *testing.T) {
	r := startTest(t, t.TempDir())
	dead := job.Errorf(job.Unavailable, "commit", "", "the disk is gone")
	r.fail(dead)
	r.fail(errors.New("a later reason"))
	<-r.Failed()
	if got := healthOf(t, r); got != http.StatusServiceUnavailable {
		t.Errorf("got %d", got)
	}
	if err := r.Stop(); !errors.Is(err, dead) || job.KindOf(err) != job.Unavailable {
		t.Errorf("got %v", err)
	}
}

// TestSecondServerOnADirectory: the directory is locked before the address is opened, so that the second server names
// the first also with the address of the first. With a free directory the address is what is in use.
func TestSecondServerOnADirectory(t *testing.T) {
	dir := t.TempDir()
	start := func(dir, listen string) (*Server, error) {
		s := NewSettings()
		s.Data, s.Listen = dir, listen
		return Start(t.Context(), s, slog.New(slog.DiscardHandler))
	}
	first, err := start(dir, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(first.URL, "http://")
	for _, listen := range []string{address, "127.0.0.1:0"} {
		_, err := start(dir, listen)
		for _, part := range []string{"another server runs on this data directory: ", dir + " is in use by ",
			fmt.Sprintf("pid=%d ", os.Getpid()), "address=" + first.URL} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: got %v, want %q", listen, err, part)
			}
		}
	}
	free := t.TempDir()
	if _, err := start(free, address); err == nil || !strings.Contains(err.Error(), "is in use by another program") {
		t.Errorf("a free directory: %v", err)
	}
	if err := first.Stop(); err != nil {
		t.Error(err)
	}
	for _, dir := range []string{free, dir} { // neither is locked any more
		r, err := start(dir, address)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestStartFailsWhole(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "logs"), nil, 0o600); err != nil { // a file where a directory must be
		t.Fatal(err)
	}
	s := NewSettings()
	s.Data, s.Listen = dir, "127.0.0.1:0"
	if _, err := Start(t.Context(), s, slog.New(slog.DiscardHandler)); err == nil {
		t.Fatal("it started")
	}
	if err := os.Remove(filepath.Join(dir, "logs")); err != nil {
		t.Fatal(err)
	}
	r, err := Start(t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("the failed start left the store locked: %v", err)
	}
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
}
