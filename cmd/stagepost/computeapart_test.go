package main

import (
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	computemodule "github.com/stagepost/stagepost/app/compute/module"
	orchestratormodule "github.com/stagepost/stagepost/app/compute/orchestrator/module"
	computeserve "github.com/stagepost/stagepost/app/compute/serve"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/config"
	"github.com/stagepost/stagepost/host"
)

// TestWithoutComputeModule: compute works in a program that has no module beside it. Settings, addresses and kinds of
// agents of the module do not exist there.
func TestWithoutComputeModule(t *testing.T) {
	t.Setenv("SERVICE_E_CLIENTS", "http://127.0.0.1:9") // not read
	jobs := &computeserve.Settings{}
	s := host.NewSettings(computemodule.New(jobs))
	s.Data, s.Listen, s.Store = t.TempDir(), "127.0.0.1:0", "mem"
	jobs.Local, jobs.Sandbox = 1, "none"
	r, err := host.Start(t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if code, out, errs := command(r, "run", "--", "true"); code != cli.ExitOK || len(r.Endpoints()) != 0 {
		t.Errorf("a job: %d %s %s, %v", code, out, errs, r.Endpoints())
	}
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
	jobs.Services = filepath.Join(t.TempDir(), "services.yaml")
	write(t, jobs.Services, "agents: {a1: {legacy: \"http://127.0.0.1:9\"}}")
	if _, _, err := computeserve.ServiceConfig(jobs); err == nil || !strings.Contains(err.Error(), "no module") {
		t.Errorf("an agent of the module: got %v", err)
	}
	with := host.NewSettings(computemodule.New(jobs), orchestratormodule.New(jobs)) // the control
	if found, env, err := computeserve.ServiceConfig(jobs); err != nil || len(found.Agents) != 2 ||
		len(env.Services) != 1 {
		t.Errorf("with the module: %+v, %+v, %v", found, env, err)
	}
	for _, name := range []string{"compute.listen", "compute.strict", "compute.upload.bytes"} {
		named := func(one config.Setting) bool { return one.Name == name }
		if slices.ContainsFunc(s.All(), named) || !slices.ContainsFunc(with.All(), named) {
			t.Errorf("the setting %s must exist with the module, and without it must not", name)
		}
	}
}
