package agentcli

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	computeserve "github.com/stagepost/stagepost/app/compute/serve"
	"github.com/stagepost/stagepost/app/compute/serviceconfig"
	"github.com/stagepost/stagepost/cli"
)

// bindServices has each kind of bind that no sandbox shows, one of nothing, good ones, and one that is on another
// agent's machine.
const bindServices = `services:
  t: {binds: [/tmp/x, "/usr/share:/job", "/var/lib:/tmp/y", "/usr/share:/opt/share", /usr/share]}
  u: {binds: [/nonexistent/u]}
  v: {binds: [/nonexistent/v, /proc/sys], agents: [other]}
agents:
  other: {tunnel: true}
`

var bindForms = []string{
	`service "t": binds: the bind of "/tmp/x" may not lie in /tmp`, `service "t": binds: the bind of "/usr/share" may not cover /job`, `service "t": binds: the bind of "/var/lib" may not lie in /tmp`,
	`service "v": binds: the bind of "/proc/sys" may not lie in /proc`,
}

const bindOfNothing = `service "u": binds: the bind of "/nonexistent/u" cannot be shown on this machine: no such file or directory`

// reports checks that an error is one of usage with exactly these lines.
func reports(t *testing.T, err error, want ...string) {
	t.Helper()
	if len(want) == 0 {
		if err != nil {
			t.Errorf("got %v, want none", err)
		}
		return
	}
	if _, ok := errors.AsType[cli.UsageError](err); !ok {
		t.Errorf("got %v (%T), want one of usage", err, err)
		return
	}
	if n := len(strings.Split(err.Error(), "\n")); n != len(want) {
		t.Errorf("got %d lines, want %d:\n%v", n, len(want), err)
	}
	for _, line := range want {
		if !strings.Contains(err.Error(), line) {
			t.Errorf("it does not report %s:\n%v", line, err)
		}
	}
}

func bindFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "services.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// An agent whose settings show what no sandbox can show does not start, and reports all of it.
func TestAgentBinds(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	env := serviceconfig.Environment{
		Shown: []serviceconfig.Shown{{Service: "t", Dirs: []string{"/tmp/z", "/nonexistent/z", "/usr/share"},
			From: "SERVICE_T_BIND_RO"}}}
	variables := []string{
		`SERVICE_T_BIND_RO: the bind of "/tmp/z" may not lie in /tmp`, `SERVICE_T_BIND_RO: the bind of "/nonexistent/z" cannot be shown on this machine: no such file or directory`,
	}
	file := append([]string{bindOfNothing}, bindForms...)
	name := bindFile(t, bindServices)
	for who, one := range map[string]struct {
		a    agentSettings
		want []string
	}{
		"file":      {agentSettings{services: name, name: "a"}, file},
		"variables": {agentSettings{env: env, name: "a"}, variables},
		"both":      {agentSettings{services: name, env: env, name: "a"}, append(variables, file...)},
		"the other agent": {agentSettings{services: name, name: "other"},
			append([]string{`the bind of "/nonexistent/v" cannot`}, file...)},
		"control: good ones": {agentSettings{services: bindFile(t, `services: {t: {binds: [/usr/share, "/usr/share:/opt/share", /etc/passwd:/opt/users]}}`), name: "a"}, nil},
	} {
		t.Run(who, func(t *testing.T) {
			_, err := one.a.options(log)
			reports(t, err, one.want...)
		})
	}
}

// A server searches for what is shown only where it runs jobs itself; what no sandbox shows it refuses in any case.
func TestServerBinds(t *testing.T) {
	name := bindFile(t, bindServices)
	check := func(s *computeserve.Settings, want ...string) {
		t.Helper()
		_, _, err := computeserve.ServiceConfig(s)
		reports(t, err, want...)
	}
	check(&computeserve.Settings{Services: name, Local: 1}, append([]string{bindOfNothing}, bindForms...)...)
	check(&computeserve.Settings{Services: name}, bindForms...)
	good := bindFile(t, "services: {u: {binds: [/nonexistent/u]}, v: {binds: [/usr/share], agents: ["+serviceconfig.Local+"]}}")
	check(&computeserve.Settings{Services: good})
	check(&computeserve.Settings{Services: good, Local: 1}, bindOfNothing)
}
