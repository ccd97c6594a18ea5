package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/config"
	"github.com/stagepost/stagepost/internal/systemd"
	"github.com/stagepost/stagepost/internal/systemd/systemdtest"
	"github.com/stagepost/stagepost/quantity"
)

// TestUnderSystemd runs the real server as systemd would: it notifies it of the start, sends keep-alives, reloads, and
// notifies it of the stop.
func TestUnderSystemd(t *testing.T) {
	t.Parallel()
	for _, abstract := range []bool{false, true} {
		t.Run(fmt.Sprint("abstract=", abstract), func(t *testing.T) {
			s := systemdtest.New(t, abstract)
			dir := t.TempDir()
			file := filepath.Join(dir, "stagepost.yaml")
			write(t, file, "log.level: warn\n")
			v := prepare(t, dir, "--config", file)
			v.Env = append(os.Environ(), "NOTIFY_SOCKET="+s.Socket, "WATCHDOG_USEC=2000000")
			var log strings.Builder
			v.Stderr = &log
			v.begin(t)
			if text, others := s.Until("READY=1"); others != 0 ||
				!strings.Contains(text, " steps at work, http://127.0.0.1:") {
				t.Errorf("got %q after %d others", text, others)
			}
			s.Until("WATCHDOG=1")
			s.Until("WATCHDOG=1")
			for _, level := range []string{"info", "loud", "warn"} {
				write(t, file, "log.level: "+level+"\n")
				before, _ := systemd.Monotonic()
				v.signal(t, syscall.SIGHUP)
				text, _ := s.Until("RELOADING=1")
				after, _ := systemd.Monotonic()
				_, stamp, _ := strings.Cut(text, "\nMONOTONIC_USEC=")
				if usec, err := strconv.ParseInt(stamp, 10, 64); err != nil || usec < before || usec > after {
					t.Errorf("got %q, want a time from %d to %d", text, before, after)
				}
				s.Until("READY=1")
			}
			v.signal(t, syscall.SIGTERM)
			s.Until("STOPPING=1")
			if err := v.Wait(); err != nil {
				t.Errorf("%v: %s", err, &log)
			}
			if got := log.String(); strings.Count(got, "msg=reloaded") != 1 ||
				!strings.Contains(got, `log.level must be debug, info, warn or error, not \"loud\"`) {
				t.Errorf("the log has %s", got)
			}
		})
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestUnit holds the unit file against systemd itself where it is there, and against what the server needs.
func TestUnit(t *testing.T) {
	text, err := os.ReadFile("../../contrib/systemd/stagepost.service")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			values[name] = value
			if name == "Environment" {
				setting, v, _ := strings.Cut(value, "=")
				values[setting] = v
			}
		}
	}
	for name, want := range map[string]string{
		"Type": "notify", "NoNewPrivileges": "yes", "ProtectSystem": "strict", "PrivateTmp": "yes",
		"Restart": "on-failure", "DynamicUser": "yes",
		"StateDirectory": "stagepost", "STAGEPOST_DATA": "/var/lib/stagepost",
		"STAGEPOST_TOKENS": "/var/lib/stagepost/tokens", "CapabilityBoundingSet": "", "MemoryDenyWriteExecute": "yes",
	} {
		if got, ok := values[name]; !ok || got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	grace, err := quantity.ParseDuration(values["STAGEPOST_GRACE"])
	stop, err2 := strconv.Atoi(values["TimeoutStopSec"])
	if err != nil || err2 != nil || time.Duration(stop)*time.Second < grace+15*time.Second {
		t.Errorf("the server stops within %s, systemd waits %d s", grace+10*time.Second, stop)
	}
	settings := newSettings().All()
	for name := range values {
		if strings.HasPrefix(name, "STAGEPOST_") && !containsSetting(settings, name) {
			t.Errorf("there is no setting %s", name)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return // the file was read above; systemd's own check needs systemd
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "stagepost.service")
	check := func(text string) (string, error) {
		write(t, unit, text)
		out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput()
		return string(out), err
	}
	installed := strings.ReplaceAll(string(text), "/usr/local/bin/stagepost", path)
	if out, err := check(installed); err != nil || out != "" {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	if out, err := check(strings.ReplaceAll(installed, "NoNewPrivileges=yes", "NoNewPrivileges=perhaps")); err == nil &&
		out == "" {
		t.Error("the control: a unit with a mistake was taken")
	}
}

func containsSetting(all []config.Setting, env string) bool {
	for _, one := range all {
		if one.Env() == env {
			return true
		}
	}
	return false
}
