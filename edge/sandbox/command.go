package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// defaultPath is the PATH of commands that bring none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Unacceptable reports that a command can never run as it is asked for: the fault is in what was asked, and not in the
// sandbox or the machine's state.
type Unacceptable struct{ Err error }

func (e *Unacceptable) Error() string { return e.Err.Error() }

// Unwrap gives what is wrong.
func (e *Unacceptable) Unwrap() error { return e.Err }

// validate gives all mistakes of a command at once, as an Unacceptable.
func (c *Command) validate() error {
	var all []error
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		all = append(all, errors.New("there is no program"))
	}
	for _, v := range slices.Concat(c.Argv, c.Env) {
		if strings.ContainsRune(v, 0) {
			all = append(all, fmt.Errorf("%q has a NUL character", v))
		}
	}
	for _, v := range c.Env {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" {
			all = append(all, fmt.Errorf("the variable %q is not NAME=value", v))
		}
	}
	if !filepath.IsAbs(c.Dir) {
		all = append(all, fmt.Errorf("the directory %q is not absolute", c.Dir))
	}
	for _, b := range c.Binds {
		all = append(all, b.Check())
	}
	if c.Network != "" && c.Network != networkNone && c.Network != networkHost {
		all = append(all, fmt.Errorf("the network %q is neither none nor host", c.Network))
	}
	l := c.Limits
	if l.Wall < 0 || l.CPU < 0 || l.Memory < 0 || l.Disk < 0 || l.Output < 0 || l.Processes < 0 || l.Cores < 0 ||
		l.Files < 0 || c.Grace < 0 {
		all = append(all, errors.New("a limit is negative"))
	}
	if err := errors.Join(all...); err != nil {
		return &Unacceptable{err}
	}
	return nil
}

// taken lists what no bind may cover or lie in: the paths that the sandbox makes itself.
var taken = []string{jobDir, "/proc", "/dev", "/tmp", "/sys", "/etc/passwd", "/etc/group"}

// Check reports why no sandbox can show a bind, as far as its paths show it. Whether the path exists it
// does not check.
func (b Bind) Check() error {
	to := b.to()
	if !filepath.IsAbs(b.From) || !filepath.IsAbs(to) {
		return fmt.Errorf("the bind %q to %q is not absolute", b.From, to)
	}
	for _, t := range append([]string{"/", "/usr", "/etc"}, taken...) {
		if to == t {
			return fmt.Errorf("the bind of %q may not cover %s", b.From, t)
		}
	}
	for _, t := range taken {
		if strings.HasPrefix(to, t+"/") {
			return fmt.Errorf("the bind of %q may not lie in %s", b.From, t)
		}
	}
	return nil
}

func (b Bind) to() string {
	if b.To == "" {
		return filepath.Clean(b.From)
	}
	return filepath.Clean(b.To)
}

// environment is the whole environment of a command.
func environment(env []string, home, temp string) []string {
	out := slices.Clone(env)
	for _, d := range [][2]string{{"PATH", defaultPath}, {"HOME", home}, {"TMPDIR", temp}, {"LANG", "C.UTF-8"}} {
		if !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, d[0]+"=") }) {
			out = append(out, d[0]+"="+d[1])
		}
	}
	return out
}
