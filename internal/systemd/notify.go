package systemd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Manager is the service manager that started the program: what it needs to be reported, and where (sd_notify(3)). The
// zero manager is none.
type Manager struct {
	socket   string        // NOTIFY_SOCKET: a path, or "@" and the name of an abstract socket
	watchdog time.Duration // WATCHDOG_USEC: it kills a program that gives no sign of life for so long; 0: never
}

// find reads the manager from the environment. WATCHDOG_PID names another process where a wrapper was given the
// variables.
func find(env func(string) (string, bool), pid int) (Manager, error) {
	var m Manager
	m.socket, _ = env("NOTIFY_SOCKET")
	if m.socket == "" {
		return Manager{}, nil
	}
	if m.socket[0] != '/' && m.socket[0] != '@' {
		return Manager{}, fmt.Errorf("NOTIFY_SOCKET %q is neither a path nor an abstract socket", m.socket)
	}
	text, _ := env("WATCHDOG_USEC")
	if text == "" {
		return m, nil
	}
	if whose, _ := env("WATCHDOG_PID"); whose != "" && whose != strconv.Itoa(pid) {
		return m, nil
	}
	usec, err := strconv.ParseInt(text, 10, 64)
	if err != nil || usec <= 0 || usec > int64(365*24*time.Hour/time.Microsecond) {
		return Manager{}, fmt.Errorf("WATCHDOG_USEC %q is not a number of microseconds", text)
	}
	m.watchdog = time.Duration(usec) * time.Microsecond
	return m, nil
}

// Find finds the manager of this process and takes its variables out of the environment, so that no child speaks in our
// name.
func Find() (Manager, error) {
	m, err := find(os.LookupEnv, os.Getpid())
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		err = errors.Join(err, os.Unsetenv(name))
	}
	return m, err
}

// Notify sends assignments such as READY=1 in one datagram. It does not wait for a manager that does not read.
func (m Manager) Notify(assignments ...string) error {
	if m.socket == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	defer c.Close()
	if err := c.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	for i, a := range assignments {
		assignments[i] = strings.ReplaceAll(a, "\n", " ") // one line each
	}
	if _, err := c.Write([]byte(strings.Join(assignments, "\n"))); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}

// Alive sends signs of life until ctx ends, at half of the time after which the manager stops trying, as long as probe
// finds nothing wrong in a quarter of it. A probe that hangs stops them, and so the manager restarts a program that
// runs but gets nothing done.
func (m Manager) Alive(ctx context.Context, log *slog.Logger, probe func(context.Context) error, status func() string) {
	if m.socket == "" || m.watchdog == 0 {
		return
	}
	tick := time.NewTicker(m.watchdog / 2)
	defer tick.Stop()
	for {
		if err := m.ping(ctx, probe, status); err != nil && ctx.Err() == nil {
			log.Error("no sign of life for the service manager", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (m Manager) ping(ctx context.Context, probe func(context.Context) error, status func() string) error {
	limited, cancel := context.WithTimeout(ctx, m.watchdog/4)
	defer cancel()
	if err := probe(limited); err != nil {
		return errors.Join(err, m.Notify("STATUS=ailing: "+err.Error()))
	}
	return m.Notify("WATCHDOG=1", "STATUS="+status())
}
