package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/edge/sandbox"
)

// confined gives a commander for each tier that works here.
func confined(t *testing.T, test func(t *testing.T, f *Confined)) {
	for tier, box := range boxes {
		t.Run(tier, func(t *testing.T) { test(t, &Confined{Sandbox: box, Temp: t.TempDir()}) })
	}
}

// TestLimits ends commands that use too much with a sentence that states that; without the limit, which is the control,
// the same command ends by itself. It holds what it has for $HOLD seconds, longer than the limit needs to end it.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		limits           sandbox.Limits
	}{
		{"memory", "{ head -c 60000000 /dev/zero && sleep $HOLD; } | tail -n 1 > /dev/null & wait $!", "the command used more than its 48 MiB of memory", sandbox.Limits{Memory: 48 << 20}},
		{"wall", "sleep $HOLD", "the command ran longer than 100ms", sandbox.Limits{Wall: 100 * time.Millisecond}},
		{"disk", "head -c 3000000 /dev/zero > a || exit 1; sleep $HOLD", "the command wrote more than its 1 MiB", sandbox.Limits{Disk: 1 << 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			confined(t, func(t *testing.T, f *Confined) {
				holding := func(seconds string) *Command {
					command := sh(c.text)
					command.Env = append(command.Env, "HOLD="+seconds)
					return command
				}
				if out, err := f.Run(t.Context(), holding("0.4")); err != nil || out.Exit != 0 || out.Limit != "" {
					t.Errorf("without a limit: %+v, %v", out, err)
				}
				f.Limits = c.limits
				out, err := f.Run(t.Context(), holding("600"))
				if err != nil || out.Limit != c.want {
					t.Fatalf("%+v, %v", out, err)
				}
			})
		})
	}
}

// TestDirsAreAllowed: a flow file may lead a command only where it was stated that commands may write.
func TestDirsAreAllowed(t *testing.T) {
	confined(t, func(t *testing.T, f *Confined) {
		root, outside := t.TempDir(), t.TempDir()
		inner := filepath.Join(root, "a")
		if err := errors.Join(os.Mkdir(inner, 0o700), os.Symlink(outside, filepath.Join(root, "out")),
			os.Symlink(inner, filepath.Join(outside, "in"))); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			dirs []string
			dir  string
			want string // in the error; empty: it runs
		}{
			{nil, root, "commands that are confined have directories of their own only"},
			{[]string{root}, root, ""},
			{[]string{root}, inner, ""},
			{[]string{root}, filepath.Join(outside, "in"), ""},
			{[]string{root}, filepath.Join(root, "out"), "is not below " + root},
			{[]string{root}, filepath.Join(root, "..", filepath.Base(outside)), "is not below"},
			{[]string{root}, "/", "is not below"},
			{[]string{inner}, root, "is not below"},
			{[]string{root, outside}, filepath.Join(root, "out"), ""},
			{[]string{root}, filepath.Join(root, "none"), "no such file or directory"},
		} {
			f.Dirs = c.dirs
			command := sh("echo x > made")
			command.Dir = c.dir
			_, err := f.Run(t.Context(), command)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s with %v: %v", c.dir, c.dirs, err)
			}
		}
	})
}

// TestOneAtATime: commands with one directory, or with one in the other, wait for each other; others do not. The first
// command holds its position until a word comes.
func TestOneAtATime(t *testing.T) {
	confined(t, func(t *testing.T, f *Confined) {
		root := t.TempDir()
		f.Dirs = []string{root}
		inner, aside := filepath.Join(root, "a", "b"), filepath.Join(root, "c")
		if err := errors.Join(os.MkdirAll(inner, 0o700), os.Mkdir(aside, 0o700)); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"began", "go"} {
			if err := syscall.Mkfifo(filepath.Join(root, "a", name), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		first := sh("echo x > began; read -r word < go; echo first >> b/order")
		first.Dir = filepath.Join(root, "a")
		ended := make(chan error, 2)
		go func() {
			_, err := f.Run(t.Context(), first)
			ended <- err
		}()
		if _, err := os.ReadFile(filepath.Join(root, "a", "began")); err != nil {
			t.Fatal(err)
		}
		other := sh("exit 0")
		other.Dir = aside
		if _, err := f.Run(t.Context(), other); err != nil {
			t.Errorf("a command elsewhere: %v", err)
		}
		why := errors.New("not so long")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, why)
		defer cancel()
		second := sh("echo second >> order")
		second.Dir = inner
		if _, err := f.Run(ctx, second); !errors.Is(err, why) {
			t.Errorf("a command below: %v", err)
		}
		go func() {
			_, err := f.Run(t.Context(), second)
			ended <- err
		}()
		if err := os.WriteFile(filepath.Join(root, "a", "go"), []byte("x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Error(err)
		}
		if got := contents(t, inner, "order"); got != "first\nsecond" {
			t.Errorf("got %q", got)
		}
	})
}
