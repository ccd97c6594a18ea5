package slurm

import (
	_ "embed"
	"fmt"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/compute"
)

// body is the part of batch.sh that is the same for all.
//
//go:embed batch.sh
var body string

// quote makes one word of the shell of any text without NUL.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// wrapper writes batch.sh: first what differs, all of it numbers and paths that an administrator chose, then the body.
// Nothing in it comes from a user.
func (s *Slurm) wrapper(dir string, l compute.Limits) string {
	var b strings.Builder
	b.WriteString("#!/bin/bash -p\n# Written by Stagepost for one payload. Its parts are explained in the package " +
		"app/compute/slurm.\n")
	set := func(name, value string) { fmt.Fprintf(&b, "%s=%s\n", name, quote(value)) }
	set("dir", path.Join(s.o.Dir, dir))
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"wall", seconds(l.Wall)}, {"grace", max(1, seconds(s.o.Grace))}, {"output", l.Output}, {"disk", kibi(l.Disk)},
		{"files", int64(l.Files)}, {"cpu", seconds(l.CPU)},
	} {
		set(n.name, fmt.Sprint(n.value))
	}
	words := []string{}
	if s.o.Bwrap != "" {
		words = s.confined(dir)
	}
	for i, word := range words {
		words[i] = quote(word)
	}
	fmt.Fprintf(&b, "confined=(%s)\n", strings.Join(words, " "))
	b.WriteString(body)
	return b.String()
}

// confined gives the command line of bubblewrap: the payload's directory, /usr and the binds, and nothing else of the
// node; no network; all processes end with the first.
func (s *Slurm) confined(dir string) []string {
	work := path.Join(s.o.Dir, dir, workDir)
	words := []string{s.o.Bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr"}
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		words = append(words, "--symlink", "usr/"+name, "/"+name)
	}
	for _, name := range []string{"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
		"/etc/localtime"} {
		words = append(words, "--ro-bind-try", name, name)
	}
	for _, name := range s.o.Binds {
		words = append(words, "--ro-bind", name, name)
	}
	return append(words, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind", work, work, "--chdir", work,
		"--")
}

// seconds rounds up.
func seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }

// kibi gives bytes in KiB, rounded up.
func kibi(bytes int64) int64 { return (bytes + 1023) / 1024 }

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,199}$`)

// variable refuses what the environment cannot hold.
func variable(name, value string) error {
	if !variableName.MatchString(name) || strings.Contains(value, "\x00") || len(value) > 1<<17 {
		return fmt.Errorf("the variable %q cannot be set", printable(name, 100))
	}
	return nil
}

// readOnly are variables that bash does not let any user set: an assignment would end the file that sets it.
var readOnly = []string{"BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID"}

// environ writes the file env: one assignment for each variable, sorted.
func (s *Slurm) environ(p *compute.Parcel) (string, error) {
	identity := map[string]string{"JOB_ID": string(p.Job), "SERVICE": p.Service} // as in an agent
	all := compute.Environ(s.o.Env, p.Env, identity)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := variable(name, all[name]); err != nil {
			return "", err
		}
		if !slices.Contains(readOnly, name) {
			fmt.Fprintf(&b, "export %s=%s\n", name, quote(all[name]))
		}
	}
	return b.String(), nil
}
