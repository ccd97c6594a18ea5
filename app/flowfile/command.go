package flowfile

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/format/tree"
)

// Bounds of commands.
const (
	MaxOutput   = 1 << 20 // bytes of standard output, and of an answer to a request
	termination = 5 * time.Second
	longestVar  = 100 << 10 // bytes of one variable: Linux takes 128 KiB with the name
	longestEnv  = 512 << 10 // bytes of all
)

// TypeCommandFailed is the type of failure of a command that did not exit with 0, or met a limit.
const TypeCommandFailed = "CommandFailed"

// CommandError is how a command ended that failed.
type CommandError struct {
	Exit   int    // -1: by a signal
	Signal string // "SIGKILL"; empty: it exited
	Limit  string // the sentence about the limit that ended it; empty: none did
	Stderr string // the end of what it wrote to standard error
}

// Error is part of error.
func (e *CommandError) Error() string {
	text := fmt.Sprintf("the command exited with %d", e.Exit)
	switch {
	case e.Limit != "":
		text = e.Limit
	case e.Signal != "":
		text = "the command was ended by " + e.Signal
	}
	if e.Stderr != "" {
		text += ": " + e.Stderr
	}
	return text
}

// FailureType is part of flow.Typed.
func (e *CommandError) FailureType() string { return TypeCommandFailed }

// command reads what is to be run.
func (r *reader) command(a *action, t *tree.Node) bool {
	if !r.o.Commands && !r.o.any {
		r.wrong(t.Position, "commands are off")
	}
	switch {
	case t.Kind == tree.List && len(t.Items) > 0:
		for _, one := range t.Items {
			a.argv = append(a.argv, r.text(one, "an argument of run"))
		}
		if a.argv[0] == "" {
			r.wrong(t.Items[0].Position, "the program has no name")
		}
	case t.Kind == tree.Leaf && t.Value != nil && t.Value != "":
		a.script = r.text(t, "run")
	default:
		r.wrong(t.Position, "run is text for sh, or a list of a program and its arguments, not %s", t.Describe())
		return false
	}
	if strings.Contains(a.script+strings.Join(a.argv, ""), "\x00") {
		r.wrong(t.Position, "a command holds no NUL bytes")
	}
	return true
}

// dir reads where a command runs.
func (r *reader) dir(t *tree.Node) string {
	dir := r.text(t, "dir")
	switch {
	case dir == "" || filepath.IsAbs(dir) || r.o.any:
		return dir
	case r.o.Dir == "":
		r.wrong(t.Position, "dir must be absolute here: %.60q begins without a slash", dir)
	case !filepath.IsLocal(dir):
		r.wrong(t.Position, "dir must not lead out of the directory that it is below: %.60q", dir)
	}
	return filepath.Join(r.o.Dir, dir)
}

// reserved are variables that change what programs do before they read their arguments. A value that came from outside
// must not be in them.
var reserved = []string{"PATH", "HOME", "LANG", "LANGUAGE", "IFS", "ENV", "BASH_ENV", "SHELLOPTS", "BASHOPTS", "CDPATH",
	"GLOBIGNORE", "PS1", "PS2", "PS4", "PWD", "OLDPWD", "SHELL",
	"TMPDIR", "TERM", "USER", "LOGNAME", "NODE_OPTIONS", "RUBYOPT", "RUBYLIB", "PERL5OPT", "PERL5LIB", "PERL5DB",
	"JAVA_TOOL_OPTIONS", "EDITOR", "VISUAL", "PAGER",
	"PROMPT_COMMAND", "HOSTALIASES", "LOCALDOMAIN", "GCONV_PATH", "OPTIND", "http_proxy", "https_proxy", "all_proxy",
	"HTTPS_PROXY", "HTTP_PROXY"}

var reservedPrefixes = []string{"LD_", "DYLD_", "LC_", "BASH_", "PYTHON", "GIT_", "SSH_", "STAGEPOST_"}

// variable gives the environment variable of an argument: letters that variables do not have become "_".
func variable(arg string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, arg)
}

// variables checks the arguments of commands.
func (r *reader) variables(k *task) {
	names := k.args.names()
	runs := k.act != nil && k.act.kind == "run" && !k.act.noEnv
	if k.revert != nil && k.revert.kind == "run" && !k.revert.noEnv {
		runs = true
		if k.undo != nil {
			names = append(names, k.undo.names()...)
		}
		names = append(names, k.provides.names()...)
	}
	if !runs {
		return
	}
	slices.Sort(names)
	of := map[string]string{}
	for _, name := range slices.Compact(names) {
		v := variable(name)
		switch other, there := of[v]; {
		case slices.Contains(reserved, v) || slices.ContainsFunc(reservedPrefixes, func(p string) bool {
			return strings.HasPrefix(v, p)
		}):
			r.wrong(k.place, "the environment variable %s is not for values: rename the argument with rebind", v)
		case v[0] >= '0' && v[0] <= '9':
			r.wrong(k.place, "the argument %s of a command must begin with a letter: it is an environment variable",
				name)
		case there:
			r.wrong(k.place, "the arguments %s and %s would be the same environment variable, %s: give one another "+
				"name with rebind", other, name, v)
		}
		of[v] = name
	}
}
