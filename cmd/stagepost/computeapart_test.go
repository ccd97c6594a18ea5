package main

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	computeserve "github.com/stagepost/stagepost/app/compute/serve"
	"github.com/stagepost/stagepost/app/compute/site"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/host"
)

// TestWithoutComputeModule: compute works in a program that has no module beside it; what only the module has is refused.
func TestWithoutComputeModule(t *testing.T) {
	t.Setenv("SERVICE_E_CLIENTS", "http://127.0.0.1:9") // nobody reads it
	s := newSettings()
	all := computeOf(s).Module
	computeOf(s).Module = site.Module{}
	s.Data, s.Listen, s.Store = t.TempDir(), "127.0.0.1:0", "mem"
	computeOf(s).Local, computeOf(s).Sandbox = 1, "none"
	r, err := host.Start(t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if code, out, errs := says(r, "run", "--", "true"); code != cli.ExitOK || r.Addresses["compute"] != "" {
		t.Errorf("a job: %d %s %s, %q", code, out, errs, r.Addresses["compute"])
	}
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
	s = newSettings()
	computeOf(s).Module = site.Module{}
	s.Data, s.Listen, s.Store = t.TempDir(), "127.0.0.1:0", "mem"
	computeOf(s).Local, computeOf(s).Sandbox, computeOf(s).Listen = 1, "none", "127.0.0.1:0"
	if _, err := host.Start(t.Context(), s, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "without a module") {
		t.Errorf("users of the module: got %v", err)
	}
	computeOf(s).Services = filepath.Join(t.TempDir(), "services.yaml")
	write(t, computeOf(s).Services, "agents: {a1: {legacy: \"http://127.0.0.1:9\"}}")
	if _, _, err := computeserve.Site(computeOf(s)); err == nil || !strings.Contains(err.Error(), "no module") {
		t.Errorf("an agent of the module: got %v", err)
	}
	computeOf(s).Module = all // the control
	if found, env, err := computeserve.Site(computeOf(s)); err != nil || len(found.Agents) != 2 || len(env.Services) != 1 {
		t.Errorf("with the module: %+v, %+v, %v", found, env, err)
	}
}
