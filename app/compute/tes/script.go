package tes

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// preamble makes the directories of the task. A directory of a strange name would change what a shell's -c reads once a
// path is led there, so it is refused.
const preamble = `#!/bin/bash
# Made of a task of GA4GH TES. Its absolute paths lie below $tes.
tes=$PWD/` + rootName + `
log=$PWD/` + logName + `
(LC_ALL=C; case $PWD in *[!A-Za-z0-9_./+,:=@-]*) exit 1 ;; esac) || { echo "tasks of TES cannot run in a directory of this name: $PWD" >&2; exit 125; }
nice=$(command -v nice) || { echo "the command nice is missing" >&2; exit 125; }
stamp() { date -u +%Y-%m-%dT%H:%M:%SZ; }
fail() { echo "the directories of the task cannot be made" >&2; exit 125; }
mkdir -p -- "$tes" "$log" || fail
`

// script makes run.sh of a task that was checked.
func (t *checked) script() string {
	var b strings.Builder
	b.WriteString(preamble)
	for _, dir := range t.directories() {
		fmt.Fprintf(&b, "mkdir -p -- %s || fail\n", below(dir))
	}
	for i := range t.Inputs {
		name := t.Inputs[i].Path
		if t.covered(name) {
			fmt.Fprintf(&b, "cp -- %s%d %s || fail\n", inputName, i, below(name))
			continue
		}
		fmt.Fprintf(&b, "ln -s -- %s%s%d %s || fail\n", strings.Repeat("../", strings.Count(name, "/")), inputName, i,
			below(name))
	}
	for i := range t.Executors {
		t.run(&b, i)
	}
	b.WriteString("exit 0\n")
	return b.String()
}

// directories lists what must be there before the first executor begins.
func (t *checked) directories() []string {
	var dirs []string
	for i := range t.Inputs {
		dirs = append(dirs, path.Dir(t.Inputs[i].Path))
	}
	for i := range t.Outputs {
		switch o := &t.Outputs[i]; {
		case o.PathPrefix != "":
			dirs = append(dirs, o.PathPrefix)
		case o.Type == TypeDirectory:
			dirs = append(dirs, o.Path)
		default:
			dirs = append(dirs, path.Dir(o.Path))
		}
	}
	dirs = append(dirs, t.Volumes...)
	for i := range t.Executors {
		e := &t.Executors[i]
		if e.Workdir != "" {
			dirs = append(dirs, e.Workdir)
		}
		for _, f := range []string{e.Stdout, e.Stderr} {
			if f != "" {
				dirs = append(dirs, path.Dir(f))
			}
		}
	}
	slices.Sort(dirs)
	return slices.DeleteFunc(slices.Compact(dirs), func(dir string) bool { return dir == "/" })
}

// covered reports whether an input is an output as well: then it must be a file of its own, not a link.
func (t *checked) covered(name string) bool {
	for i := range t.Outputs {
		o := &t.Outputs[i]
		if o.Path == name || o.PathPrefix != "" || o.Type == TypeDirectory && strings.HasPrefix(name, o.Path+"/") {
			return true
		}
	}
	return false
}

// run writes what runs one executor. It works in a process of its own, so that nothing of it reaches the next but
// files.
func (t *checked) run(b *strings.Builder, i int) {
	e := &t.Executors[i]
	fmt.Fprintf(b, "\nbegan=$(stamp)\n(\n  cd -- %s || exit 125\n  exec ", "\"$tes\""+quotedIf(e.Workdir))
	if len(e.Env) > 0 { // env takes the first words with = for variables: nice, which comes last, has none
		b.WriteString("env --")
		for _, name := range slices.Sorted(maps.Keys(e.Env)) {
			fmt.Fprintf(b, " %s=%s", name, t.paths.word(e.Env[name]))
		}
		b.WriteString(` "$nice" -n 0`)
	}
	b.WriteString(" --")
	for _, w := range e.Command {
		b.WriteString(" " + t.paths.word(w))
	}
	b.WriteString("\n)")
	if e.Stdin != "" {
		b.WriteString(" <" + below(e.Stdin))
	}
	out, err := t.target(i, e.Stdout, "stdout"), t.target(i, e.Stderr, "stderr")
	if out != "" {
		b.WriteString(" >" + out)
	}
	switch {
	case err != "" && err == out:
		b.WriteString(" 2>&1")
	case err != "":
		b.WriteString(" 2>" + err)
	}
	fmt.Fprintf(b, "\ncode=$?\necho \"%d $code $began $(stamp)\" >>\"$log\"/executors\n", i)
	if !e.IgnoreError {
		b.WriteString("[ $code -eq 0 ] || exit $code\n")
	}
}

// target gives where an executor writes to: a path of the task, a log of its own if there are several, or "": what the
// job writes.
func (t *checked) target(i int, name, stream string) string {
	switch {
	case name != "":
		return below(name)
	case len(t.Executors) > 1:
		return fmt.Sprintf(`"$log"/%d.%s`, i, stream)
	}
	return ""
}

func quotedIf(text string) string {
	if text == "" {
		return ""
	}
	return quoted(text)
}
