package systemd

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/internal/systemd/systemdtest"
)

func TestFindManager(t *testing.T) {
	for _, c := range []struct {
		socket, usec, pid string
		want              Manager
		wrong             bool
	}{
		{"", "1000000", "", Manager{}, false},
		{"/run/systemd/notify", "", "", Manager{socket: "/run/systemd/notify"}, false},
		{"@x", "60000000", "", Manager{"@x", time.Minute}, false},
		{"@x", "60000000", "42", Manager{"@x", time.Minute}, false},
		{"@x", "60000000", "43", Manager{socket: "@x"}, false},
		{"relative", "", "", Manager{}, true},
		{"@x", "soon", "", Manager{}, true},
		{"@x", "-1", "", Manager{}, true},
		{"@x", "99999999999999999", "", Manager{}, true},
	} {
		env := map[string]string{"NOTIFY_SOCKET": c.socket, "WATCHDOG_USEC": c.usec, "WATCHDOG_PID": c.pid}
		got, err := find(func(name string) (string, bool) { v, ok := env[name]; return v, ok }, 42)
		if got != c.want || (err != nil) != c.wrong {
			t.Errorf("%+v: got %+v, %v", c, got, err)
		}
	}
}

func TestNotify(t *testing.T) {
	for _, abstract := range []bool{false, true} {
		s := systemdtest.New(t, abstract)
		if err := (Manager{socket: s.Socket}).Notify("READY=1", "STATUS=two\nlines"); err != nil {
			t.Error(err)
		}
		if got := s.Next(30 * time.Second); got != "READY=1\nSTATUS=two lines" {
			t.Errorf("abstract=%v: got %q", abstract, got)
		}
	}
	if err := (Manager{}).Notify("READY=1"); err != nil {
		t.Errorf("without a socket: %v", err)
	}
	if err := (Manager{socket: "/there/is/none"}).Notify("READY=1"); err == nil {
		t.Error("a socket that is not there")
	}
}

// TestSignsOfLife come while the probe finds nothing wrong, and not otherwise: neither when it fails nor when it hangs.
// What a probe led to is there when the next one begins.
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
			s := systemdtest.New(t, false)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			begun := make(chan struct{}, 1000)
			probe := func(ctx context.Context) error {
				begun <- struct{}{}
				return c.probe(ctx)
			}
			go func() {
				defer close(done)
				Manager{s.Socket, watchdog}.Alive(ctx, slog.New(slog.DiscardHandler), probe, status)
			}()
			if c.alive {
				for range 3 {
					if got, _ := s.Until("WATCHDOG=1"); got != "WATCHDOG=1\nSTATUS=fine" {
						t.Errorf("got %q", got)
					}
				}
			} else {
				for range 4 {
					if <-begun; c.name == "hangs" { // no other one begins
						if got := s.Next(5 * watchdog); strings.Contains(got, "WATCHDOG=1") {
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
			for got := s.Next(watchdog); got != ""; got = s.Next(watchdog) { // what was sent by then
				if !c.alive && strings.Contains(got, "WATCHDOG=1") {
					t.Errorf("got %q", got)
				}
			}
		})
	}
}
