package main

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/compute/site"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/host"
)

// TestWithoutComputeModule: compute works in a program that has no module beside it; what only the module has is refused.
func TestWithoutComputeModule(t *testing.T) {
	all := host.ComputeModule
	host.ComputeModule = site.Module{}
	t.Cleanup(func() { host.ComputeModule = all })
	t.Setenv("SERVICE_E_CLIENTS", "http://127.0.0.1:9") // nobody reads it
	s := host.NewSettings()
	s.Data, s.Listen, s.Store = t.TempDir(), "127.0.0.1:0", "mem"
	s.ComputeLocal, s.ComputeSandbox = 1, "none"
	r, err := host.Start(t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if code, out, errs := says(r, "run", "--", "true"); code != cli.ExitOK || r.ComputeURL != "" {
		t.Errorf("a job: %d %s %s, %q", code, out, errs, r.ComputeURL)
	}
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
	s = host.NewSettings()
	s.Data, s.Listen, s.Store = t.TempDir(), "127.0.0.1:0", "mem"
	s.ComputeLocal, s.ComputeSandbox, s.ComputeListen = 1, "none", "127.0.0.1:0"
	if _, err := host.Start(t.Context(), s, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "without a module") {
		t.Errorf("users of the module: got %v", err)
	}
	s.ComputeServices = filepath.Join(t.TempDir(), "services.yaml")
	write(t, s.ComputeServices, "agents: {a1: {legacy: \"http://127.0.0.1:9\"}}")
	if _, _, err := host.ComputeSite(s); err == nil || !strings.Contains(err.Error(), "no module") {
		t.Errorf("an agent of the module: got %v", err)
	}
	host.ComputeModule = all // the control
	if found, env, err := host.ComputeSite(s); err != nil || len(found.Agents) != 2 || len(env.Services) != 1 {
		t.Errorf("with the module: %+v, %+v, %v", found, env, err)
	}
}
