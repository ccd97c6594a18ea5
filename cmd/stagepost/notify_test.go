package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/quantity"
	"github.com/stagepost/stagepost/store/sqlite"
)

// systemd is a service manager as far as a service sees it: a socket that takes datagrams.
type systemd struct {
	t      *testing.T
	socket string
	conn   *net.UnixConn
}

func fakeSystemd(t *testing.T, abstract bool) *systemd {
	t.Helper()
	dir, err := os.MkdirTemp("", "sd") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &systemd{t: t, socket: filepath.Join(dir, "notify")}
	if abstract {
		s.socket = "@stagepost-test" + s.socket
	}
	s.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.conn.Close() })
	return s
}

// next gives the next datagram; none within the time is "".
func (s *systemd) next(within time.Duration) string {
	s.t.Helper()
	if err := s.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		s.t.Fatal(err)
	}
	b := make([]byte, 4096)
	n, err := s.conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ""
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b[:n])
}

// until gives the first datagram that begins so, and how many others came before it.
func (s *systemd) until(begin string) (text string, others int) {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); others++ {
		if text = s.next(time.Until(deadline)); strings.HasPrefix(text, begin) {
			return text, others
		}
	}
	s.t.Fatalf("no %s came", begin)
	return "", 0
}

func TestFindManager(t *testing.T) {
	for _, c := range []struct {
		socket, usec, pid string
		want              manager
		wrong             bool
	}{
		{"", "1000000", "", manager{}, false},
		{"/run/systemd/notify", "", "", manager{socket: "/run/systemd/notify"}, false},
		{"@x", "60000000", "", manager{"@x", time.Minute}, false},
		{"@x", "60000000", "42", manager{"@x", time.Minute}, false},
		{"@x", "60000000", "43", manager{socket: "@x"}, false},
		{"relative", "", "", manager{}, true},
		{"@x", "soon", "", manager{}, true},
		{"@x", "-1", "", manager{}, true},
		{"@x", "99999999999999999", "", manager{}, true},
	} {
		env := map[string]string{"NOTIFY_SOCKET": c.socket, "WATCHDOG_USEC": c.usec, "WATCHDOG_PID": c.pid}
		got, err := findManager(func(name string) (string, bool) { v, ok := env[name]; return v, ok }, 42)
		if got != c.want || (err != nil) != c.wrong {
			t.Errorf("%+v: got %+v, %v", c, got, err)
		}
	}
}

func TestTell(t *testing.T) {
	for _, abstract := range []bool{false, true} {
		s := fakeSystemd(t, abstract)
		if err := (manager{socket: s.socket}).tell("READY=1", "STATUS=two\nlines"); err != nil {
			t.Error(err)
		}
		if got := s.next(30 * time.Second); got != "READY=1\nSTATUS=two lines" {
			t.Errorf("abstract=%v: got %q", abstract, got)
		}
	}
	if err := (manager{}).tell("READY=1"); err != nil {
		t.Errorf("nobody to tell: %v", err)
	}
	if err := (manager{socket: "/there/is/none"}).tell("READY=1"); err == nil {
		t.Error("a socket that is not there")
	}
}

// TestSignsOfLife come while the probe finds nothing wrong, and not otherwise: neither when it fails nor when it hangs. What a probe led to is there when the next one begins.
func TestSignsOfLife(t *testing.T) {
	const watchdog = 100 * time.Millisecond
	status := func() string { return "fine" }
	for _, c := range []struct {
		name  string
		probe func(context.Context) error
		alive bool
	}{
		{"sound", func(context.Context) error { return nil }, true},
		{"wrong", func(context.Context) error { return errors.New("the sweep stands still") }, false},
		{"slow", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, false},
		{"hangs", func(context.Context) error { <-t.Context().Done(); return nil }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := fakeSystemd(t, false)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			begun := make(chan struct{}, 1000)
			probe := func(ctx context.Context) error {
				begun <- struct{}{}
				return c.probe(ctx)
			}
			go func() {
				defer close(done)
				manager{s.socket, watchdog}.alive(ctx, slog.New(slog.DiscardHandler), probe, status)
			}()
			if c.alive {
				for range 3 {
					if got, _ := s.until("WATCHDOG=1"); got != "WATCHDOG=1\nSTATUS=fine" {
						t.Errorf("got %q", got)
					}
				}
			} else {
				for range 4 {
					if <-begun; c.name == "hangs" { // no other one begins
						if got := s.next(5 * watchdog); strings.Contains(got, "WATCHDOG=1") {
							t.Errorf("got %q", got)
						}
						break
					}
				}
			}
			cancel()
			if c.name != "hangs" {
				<-done
			}
			for got := s.next(watchdog); got != ""; got = s.next(watchdog) { // what was sent by then
				if !c.alive && strings.Contains(got, "WATCHDOG=1") {
					t.Errorf("got %q", got)
				}
			}
		})
	}
}

// TestProbe asks a server whose store's commit loop hangs, whose engine's sweep therefore stands still, and one that is well.
func TestProbe(t *testing.T) {
	hang, free := make(chan struct{}), make(chan struct{})
	hangs := false
	store, err := sqlite.Open(t.TempDir(), sqlite.Options{OnCommit: func(int, time.Duration) {
		if hangs {
			hang <- struct{}{}
			<-free
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(store, nil, engine.Options{Sweep: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	r := &running{Engine: e, log: slog.New(slog.DiscardHandler), failed: make(chan struct{}), stalls: time.Hour}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := r.probe(ctx); err != nil {
		t.Errorf("the control: %v", err)
	}
	hangs = true // the loop reads it only after the commit below
	go func() { _ = e.Audit(t.Context(), engine.Entry{Actor: "ann", Event: "test"}) }()
	<-hang
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := r.probe(ctx); err == nil || !strings.Contains(err.Error(), "the store does not answer") {
		t.Errorf("a store that hangs: got %v", err)
	}
	run, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	hangs = false
	close(free)
	go func() { done <- e.Run(run) }()
	r.stalls = 0 // any standstill is too long, so the first moment between two sweeps is
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for r.healthy() == nil {
		<-tick.C
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	r.fail(errors.New("the disk is gone"))
	if err := r.probe(t.Context()); err == nil || !strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("a server that gave up: got %v", err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

// TestUnderSystemd runs the real server as systemd would: it says that it is ready, gives signs of life, reloads, and says that it stops.
func TestUnderSystemd(t *testing.T) {
	for _, abstract := range []bool{false, true} {
		t.Run(fmt.Sprint("abstract=", abstract), func(t *testing.T) {
			s := fakeSystemd(t, abstract)
			dir := t.TempDir()
			file := filepath.Join(dir, "stagepost.yaml")
			write(t, file, "log.level: warn\n")
			v := prepare(t, dir, "--config", file)
			v.Env = append(os.Environ(), "NOTIFY_SOCKET="+s.socket, "WATCHDOG_USEC=2000000")
			var log strings.Builder
			v.Stderr = &log
			v.begin(t)
			if text, others := s.until("READY=1"); others != 0 || !strings.Contains(text, " steps at work, http://127.0.0.1:") {
				t.Errorf("got %q after %d others", text, others)
			}
			s.until("WATCHDOG=1")
			s.until("WATCHDOG=1")
			for _, level := range []string{"info", "loud", "warn"} {
				write(t, file, "log.level: "+level+"\n")
				before, _ := monotonic()
				v.signal(t, syscall.SIGHUP)
				text, _ := s.until("RELOADING=1")
				after, _ := monotonic()
				_, stamp, _ := strings.Cut(text, "\nMONOTONIC_USEC=")
				if usec, err := strconv.ParseInt(stamp, 10, 64); err != nil || usec < before || usec > after {
					t.Errorf("got %q, want a time from %d to %d", text, before, after)
				}
				s.until("READY=1")
			}
			v.signal(t, syscall.SIGTERM)
			s.until("STOPPING=1")
			if err := v.Wait(); err != nil {
				t.Errorf("%v: %s", err, &log)
			}
			if got := log.String(); strings.Count(got, "msg=reloaded") != 1 || !strings.Contains(got, `log.level must be debug, info, warn or error, not \"loud\"`) {
				t.Errorf("the log says %s", got)
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
		"Type": "notify", "NoNewPrivileges": "yes", "ProtectSystem": "strict", "PrivateTmp": "yes", "Restart": "on-failure", "DynamicUser": "yes",
		"StateDirectory": "stagepost", "STAGEPOST_DATA": "/var/lib/stagepost", "STAGEPOST_TOKENS": "/var/lib/stagepost/tokens", "CapabilityBoundingSet": "", "MemoryDenyWriteExecute": "yes",
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
	settings := newSettings().all()
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
	if out, err := check(strings.ReplaceAll(installed, "NoNewPrivileges=yes", "NoNewPrivileges=perhaps")); err == nil && out == "" {
		t.Error("the control: a unit with a mistake was taken")
	}
}

func containsSetting(all []setting, env string) bool {
	for _, one := range all {
		if one.env() == env {
			return true
		}
	}
	return false
}
