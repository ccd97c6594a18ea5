package notation

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/stagepost/stagepost/lifecycle"
)

// ParseYAML reads a table in YAML. It refuses unknown keys, anchors and aliases. The keys in others are skipped: the
// caller reads them. The error is a [Problems].
func ParseYAML(file string, text []byte, others ...string) (d *Document, err error) {
	if err := tooLong(text); err != nil {
		return nil, err
	}
	defer func() { // the parser of the library may panic on hostile text
		if r := recover(); r != nil {
			d, err = nil, Problems{{1, 1, Syntax, fmt.Sprintf("not YAML: %v", r)}}
		}
	}()
	tree, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, Problems{yamlProblem(err)}
	}
	r := &reader{d: &Document{File: file, Format: YAML, start: Position{1, 1}}, others: others}
	switch {
	case len(tree.Docs) == 0 || tree.Docs[0].Body == nil:
		return nil, Problems{{1, 1, Syntax, "the document is empty"}}
	case len(tree.Docs) > 1 && tree.Docs[1].Body != nil:
		r.problem(tree.Docs[1].Body, "a second document; a file holds one lifecycle")
	}
	r.table(tree.Docs[0].Body)
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	if err := r.d.tooLarge(); err != nil {
		return nil, err
	}
	return r.d, nil
}

func yamlProblem(err error) Problem {
	var syntax *yaml.SyntaxError
	if errors.As(err, &syntax) && syntax.Token != nil {
		at := tokenPosition(syntax.Token)
		return Problem{at.Line, at.Column, Syntax, syntax.Message}
	}
	return Problem{1, 1, Syntax, err.Error()}
}

func tokenPosition(t *token.Token) Position {
	if t == nil || t.Position == nil {
		return Position{1, 1}
	}
	return Position{max(1, t.Position.Line), max(1, t.Position.Column)}
}

// reader walks the tree of a YAML document and collects its faults.
type reader struct {
	d        *Document
	problems Problems
	others   []string // keys of the file that are skipped
}

func (r *reader) problem(n ast.Node, format string, args ...any) {
	if len(r.problems) == maxProblems {
		return
	}
	at := Position{1, 1}
	if n != nil {
		at = nodePosition(n)
	}
	r.problems = append(r.problems, Problem{at.Line, at.Column, Syntax, fmt.Sprintf(format, args...)})
}

// nodePosition returns where a node begins: a block mapping at its first key, not at its first colon.
func nodePosition(n ast.Node) Position {
	switch n := n.(type) {
	case *ast.MappingNode:
		if len(n.Values) > 0 && !n.IsFlowStyle {
			return tokenPosition(n.Values[0].Key.GetToken())
		}
	case *ast.MappingValueNode:
		return tokenPosition(n.Key.GetToken())
	}
	return tokenPosition(n.GetToken())
}

// fields returns the values of a mapping by key, and reports unknown and repeated keys.
func (r *reader) fields(n ast.Node, what string, known ...string) map[string]ast.Node {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		r.problem(n, "%s is a mapping with %s", what, strings.Join(known, ", "))
		return nil
	}
	fields := map[string]ast.Node{}
	for _, v := range values {
		key := ""
		if s, ok := v.Key.(*ast.StringNode); ok {
			key = s.Value
		}
		switch {
		case !slices.Contains(known, key):
			r.problem(v.Key, "unknown key %q in %s (known: %s)", strings.TrimSpace(v.Key.String()), what,
				strings.Join(known, ", "))
		case fields[key] != nil:
			r.problem(v.Key, "%q appears twice in %s", key, what)
		default:
			fields[key] = v.Value
		}
	}
	return fields
}

func (r *reader) table(n ast.Node) {
	f := r.fields(n, "a lifecycle", append([]string{"name", "states"}, r.others...)...)
	if f == nil {
		return
	}
	r.d.Name = r.text(f["name"])
	if r.d.Name == "" {
		r.problem(n, "a lifecycle needs a name")
	}
	for _, item := range r.list(f["states"], "states") {
		r.stage(item)
	}
}

func (r *reader) stage(n ast.Node) {
	f := r.fields(n, "a state", "state", "kind", "doc", "outcome", "restartable", "endures", "bounded", "loops",
		"arrows")
	if f == nil {
		return
	}
	name, doc := lifecycle.State(r.text(f["state"])), r.text(f["doc"])
	if name == "" {
		r.problem(n, "a state needs a name (state: ...)")
	}
	var transitions []lifecycle.Transition
	var places []Position
	for _, item := range r.list(f["arrows"], "arrows") {
		transitions = append(transitions, r.transition(item))
		places = append(places, nodePosition(item))
	}
	loops := r.flag(f["loops"], true)
	s := lifecycle.Stage{State: name, Kind: lifecycle.Kind(r.word(f["kind"], "kind", "queue", "work", "wait", "end")),
		Doc: doc, Transitions: transitions}
	switch {
	case s.Kind == "":
		if f["kind"] == nil {
			r.problem(n, "a state needs a kind: queue, work, wait or end")
		}
	case loops && s.Kind == lifecycle.Queue:
		s = lifecycle.OnQueue(name, doc, transitions...)
	case loops && s.Kind == lifecycle.Work:
		s = lifecycle.OnWork(name, doc, transitions...)
	}
	s.Outcome = r.outcome(f["outcome"], "outcome")
	s.Restartable = r.flag(f["restartable"], false)
	s.Endures, s.Limit = r.text(f["endures"]), r.text(f["bounded"])
	r.d.Stages = append(r.d.Stages, s)
	r.d.states = append(r.d.states, nodePosition(n))
	r.d.transitions = append(r.d.transitions, places)
}

func (r *reader) transition(n ast.Node) lifecycle.Transition {
	f := r.fields(n, "a transition", "event", "to", "reenter", "by", "class", "sets", "when", "restart", "asks",
		"budget", "doc")
	a := lifecycle.Transition{
		Event: lifecycle.Event(r.text(f["event"])), To: lifecycle.State(r.text(f["to"])), By: r.actors(f["by"]),
		Class: lifecycle.Class(r.word(f["class"], "class", "pass", "fail", "move", "loop", "reenter")),
		Set:   r.outcome(f["sets"], "sets"), Need: r.outcome(f["when"], "when"),
		Restart: r.flag(f["restart"], false), Ask: r.flag(f["asks"],
			false), Budget: r.text(f["budget"]), Doc: r.text(f["doc"]),
	}
	for _, item := range r.list(f["reenter"], "reenter") {
		a.States = append(a.States, lifecycle.State(r.text(item)))
	}
	if f == nil {
		return a
	}
	if a.Event == "" {
		r.problem(n, "a transition needs an event")
	}
	if a.Class == "" {
		a.Class = lifecycle.Move
		if f["reenter"] != nil {
			a.Class = lifecycle.Reenter
		}
	}
	switch {
	case (a.Class == lifecycle.Reenter) != (f["reenter"] != nil):
		r.problem(n, "class reenter and the list reenter belong together")
	case a.Class == lifecycle.Reenter && a.To != "":
		r.problem(n, "a transition has either to or reenter, not both")
	case a.To == "" && a.Class != lifecycle.Reenter && a.Class != lifecycle.Loop:
		r.problem(n, "a transition needs a state it leads to")
	}
	return a
}

// actors reads "worker,timer" or [worker, timer].
func (r *reader) actors(n ast.Node) lifecycle.Actor {
	if n == nil {
		return 0
	}
	words := []string{}
	if list, ok := n.(*ast.SequenceNode); ok {
		for _, item := range list.Values {
			words = append(words, r.text(item))
		}
	} else {
		words = append(words, r.text(n))
	}
	if len(words) == 0 {
		return 0
	}
	set, err := lifecycle.ParseActor(strings.Join(words, ","))
	if err != nil {
		r.problem(n, "%v", err)
	}
	return set
}

func (r *reader) outcome(n ast.Node, key string) lifecycle.Outcome {
	return lifecycle.Outcome(r.word(n, key, "", "ok", "failed", "timed-out", "cancelled"))
}

// word reads one of the known words.
func (r *reader) word(n ast.Node, key string, known ...string) string {
	if n == nil {
		return ""
	}
	s := r.text(n)
	if !slices.Contains(known, s) {
		r.problem(n, "%s %q is not one of: %s", key, s, strings.TrimLeft(strings.Join(known, ", "), ", "))
		return ""
	}
	return s
}

func (r *reader) flag(n ast.Node, otherwise bool) bool {
	switch n := n.(type) {
	case nil:
		return otherwise
	case *ast.BoolNode:
		return n.Value
	}
	r.problem(n, "true or false is expected")
	return otherwise
}

func (r *reader) list(n ast.Node, key string) []ast.Node {
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return nil
	case *ast.SequenceNode:
		return n.Values
	}
	r.problem(n, "%s is a list", key)
	return nil
}

// text reads a scalar as written: the name of a state may be No or 10.
func (r *reader) text(n ast.Node) string {
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return ""
	case *ast.StringNode:
		return n.Value
	case *ast.LiteralNode:
		return strings.TrimSpace(n.Value.Value)
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value
	}
	r.problem(n, "a text is expected")
	return ""
}
