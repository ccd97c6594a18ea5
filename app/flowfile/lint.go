package flowfile

import (
	"fmt"
	"slices"
	"strings"
)

// Check is something that [Lint] searches for only when it is asked to.
type Check string

// CheckReverts notes tasks that do something and have no revert.
const CheckReverts Check = "reverts"

// Lint states what is wrong with a file, and what is allowed and probably not meant. It allows commands and requests
// and accepts all names of functions, because it does not have the program that allows them. Findings are in the
// order of their positions.
func Lint(text []byte, checks ...Check) []Finding {
	f, r := read(text, Options{any: true})
	lines := linesOf(text)
	var all []Finding
	for _, m := range r.mistakes.finish(lines) {
		all = append(all, Finding{m.Line, m.Column, IsError, m.Text, m.Source})
	}
	if len(all) > 0 {
		return all
	}
	l := linter{reader: r, file: f, used: map[string]bool{}}
	l.uses(f.root)
	l.inputs()
	l.results()
	for _, k := range r.tasks {
		l.commands(k)
		if slices.Contains(checks, CheckReverts) && k.revert == nil && k.act != nil && k.effects() {
			l.report(k.place, IsNote, "%s has no revert: what it did stays if the flow is reverted", k.name)
		}
	}
	slices.SortStableFunc(r.notes, func(a, b Finding) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	for i := range r.notes {
		r.notes[i].Source = source(lines, r.notes[i].Line)
	}
	return r.notes
}

type linter struct {
	*reader
	file *File
	used map[string]bool // values that a step takes
}

func (l *linter) report(at place, s Severity, format string, args ...any) {
	l.notes = append(l.notes, Finding{Line: at.Line, Column: at.Column, Severity: s,
		Text: fmt.Sprintf(format, args...)})
}

// uses collects what is taken: by arguments, conditions, fan-outs and controllers.
func (l *linter) uses(p *part) {
	if p.again != nil {
		l.used[p.again.of] = true
	}
	for _, i := range p.items {
		if i.part != nil {
			l.uses(i.part)
			continue
		}
		if i.each != nil {
			l.used[i.each.from.name] = true
		}
		for _, from := range i.froms {
			for _, k := range l.tasks {
				if k.name == from.name {
					for _, name := range k.provides.names() {
						l.used[name] = true
					}
				}
			}
		}
		for _, a := range []*args{&i.task.args, i.task.undo} {
			if a == nil {
				continue
			}
			for _, name := range a.names() {
				if from, bound := a.rebind[name]; bound {
					name = from
				}
				l.used[name] = true
			}
		}
		l.ownRevert(i.task)
	}
}

// ownRevert counts a result as used that the task's own revert mentions.
func (l *linter) ownRevert(k *task) {
	if k.revert == nil {
		return
	}
	for _, name := range k.provides.names() {
		if k.revert.request != nil && slices.ContainsFunc(k.revert.request.wants, func(one ref) bool {
			return one.name == name
		}) ||
			k.revert.kind == "go" || k.revert.script != "" && mentions(k.revert.script, variable(name)) ||
			k.revert.argv != nil {
			l.used[name] = true
		}
	}
}

func (l *linter) inputs() {
	for _, in := range l.file.inputs {
		if !l.used[in.Name] {
			l.report(in.place, IsWarning, "the input %s is not used", in.Name)
		}
	}
}

func (l *linter) results() {
	for _, k := range l.tasks {
		for _, name := range k.provides.names() {
			if !l.used[name] {
				l.report(k.provides.place, IsNote, "%s, which %s provides, is not used", name, k.name)
			}
		}
	}
}

// effects reports whether a task changes anything outside, as far as can be seen.
func (k *task) effects() bool {
	switch k.act.kind {
	case "run":
		return true
	case "http":
		return k.act.request.method != "GET" && k.act.request.method != "HEAD"
	}
	return false
}

// commands examines the variables that commands use.
func (l *linter) commands(k *task) {
	values := map[string]bool{} // all that the flow has
	for _, in := range l.file.inputs {
		values[variable(in.Name)] = true
	}
	for _, other := range l.tasks {
		for _, name := range other.provides.names() {
			values[variable(name)] = true
		}
	}
	l.variablesOf(k, k.act, k.args.names(), values)
	names := append(k.args.names(), k.provides.names()...)
	if k.undo != nil {
		names = append(k.undo.names(), k.provides.names()...)
	}
	l.variablesOf(k, k.revert, append(names, "result"), values)
}

func (l *linter) variablesOf(k *task, a *action, names []string, values map[string]bool) {
	if a == nil || a.kind != "run" {
		return
	}
	has := map[string]bool{}
	for _, name := range names {
		has[variable(name)] = true
	}
	for _, text := range a.argv {
		for _, v := range scan(text) {
			if has[v.name] && !slices.Contains([]string{"sh", "bash", "dash", "ksh"}, a.argv[0]) {
				l.report(a.place, IsWarning, "a list is not read by a shell: $%s stays as it is; write run as text",
					v.name)
			}
		}
	}
	reported := map[string]bool{}
	for _, v := range scan(a.script) {
		switch {
		case reported[v.name]:
		case has[v.name] && a.noEnv:
			l.report(a.place, IsWarning, "with env: false there is no variable $%s: read it from standard input",
				v.name)
		case has[v.name] && !v.quoted:
			l.report(a.place, IsWarning, "$%s outside of double quotes falls apart at spaces and stars: write \"$%s\"",
				v.name, v.name)
		case !has[v.name] && values[v.name] && !v.assigned:
			l.report(a.place, IsWarning, "%s uses $%s, which is not among its arguments: add requires: [%s]", k.name,
				v.name, v.name)
		case !has[v.name] && !v.assigned && !v.guarded && !setsByName(a.script, v.name) && !given(v.name) &&
			!opaque(a.script):
			l.report(a.place, IsWarning, "%s uses $%s, which nothing sets%s", k.name, v.name, likely(v.name, has))
		default:
			continue
		}
		reported[v.name] = true
	}
}

// used is a variable in a text for sh.
type used struct {
	name     string
	quoted   bool // it stands in double quotes, or where quotes make no difference
	assigned bool // the text gives it a value itself
	guarded  bool // the text states what is to be if it is not set: ${name:-other}
}

// scan finds the variables of a text for sh. It has quotes, comments, substitutions and assignments, and takes here
// documents for what they resemble: it serves hints only.
func scan(text string) []used {
	var all []used
	single, double := false, false
	var outer []bool // double, outside of each $( that is open
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case single:
			single = c != '\''
		case c == '\\':
			i++
		case c == '"':
			double = !double
		case c == '\'' && !double:
			single = true
		case c == '#' && !double && (i == 0 || strings.IndexByte(" \t\n;", text[i-1]) >= 0):
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case strings.HasPrefix(text[i:], "$(") && !strings.HasPrefix(text[i:], "$(("):
			outer, double = append(outer, double), false
			i++
		case c == ')' && !double && len(outer) > 0:
			outer, double = outer[:len(outer)-1], outer[len(outer)-1]
		case c == '$':
			if v, to := variableAt(text, i, double); v.name != "" {
				all = append(all, v)
				i = to - 1
			}
		}
	}
	return all
}

// variableAt returns the variable that a $ in a text stands for, and where its name ends. Without a name it is none.
func variableAt(text string, at int, double bool) (v used, to int) {
	from := at + 1
	if from < len(text) && text[from] == '{' {
		from++
	}
	for to = from; to < len(text) && inName(text[to]); {
		to++
	}
	name := text[from:to]
	if name == "" {
		return used{}, to
	}
	arithmetic := strings.LastIndex(text[:at], "$((") > strings.LastIndex(text[:at], "))")
	assigns := at > 0 && text[at-1] == '='
	braced, rest := text[from-1] == '{', strings.TrimPrefix(text[to:], ":")
	guarded := braced && rest != "" && strings.IndexByte("-+=?", rest[0]) >= 0
	return used{name, double || arithmetic || assigns, assignedIn(text, name), guarded}, to
}

// inName reports whether a character can be part of the name of a variable.
func inName(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// assignedIn reports whether a text gives a variable a value: name=, for name in, read name.
func assignedIn(text, name string) bool {
	for from := 0; ; {
		at := strings.Index(text[from:], name)
		if at < 0 {
			return false
		}
		at += from
		end := at + len(name)
		alone := at == 0 || strings.IndexByte(" \t\n;&|(`", text[at-1]) >= 0
		if alone && end < len(text) && text[end] == '=' {
			return true
		}
		if words := strings.Fields(text[:at]); alone && len(words) > 0 &&
			slices.Contains([]string{"for", "read", "-r", "local", "export"}, words[len(words)-1]) {
			return true
		}
		from = end
	}
}

func mentions(text, name string) bool {
	return slices.ContainsFunc(scan(text), func(v used) bool { return v.name == name })
}
