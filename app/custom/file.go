package custom

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/lifecycle/notation"
	"github.com/stagepost/stagepost/quantity"
)

// File is a lifecycle with the work of its states, read from YAML.
type File struct {
	Table *lifecycle.Table
	spec  spec
	text  []byte
	path  string // where it was read; empty: it was added by the API
}

// spec is the part of a file beside the table.
type spec struct {
	Name, States any // read by package notation
	Prefix       string
	Slots        int
	Keep         duration
	Adopts       []string
	Limits       []limit
	Work         map[lifecycle.State]*work
	Webhooks     map[string]string // URLs by name
}

type limit struct {
	Name   string
	States []lifecycle.State
	Max    int
	Per    string
}

type work struct {
	Worker, Pass bool
	Command      []string
	Env          map[string]string
	Timeout      duration
	Exits        map[int]string
	Limits       struct {
		Memory, Disk size
		CPU          duration
		Processes    int
	}
	Network  string
	Attempts int
	Backoff  struct{ First, Max duration }
	Deadline duration
	Requires []string // labels of workers
}

// others are the keys of a file that package notation does not read.
var others = []string{"prefix", "slots", "keep", "adopts", "limits", "work", "webhooks"}

// duration and size are read as people write them.
type (
	duration time.Duration
	size     int64
)

// UnmarshalYAML is called by the YAML library.
func (d *duration) UnmarshalYAML(n ast.Node) error {
	v, err := quantity.ParseDuration(n.GetToken().Value)
	*d = duration(v)
	return positive(n, int64(v), err)
}

// UnmarshalYAML is called by the YAML library.
func (s *size) UnmarshalYAML(n ast.Node) error {
	v, err := quantity.ParseBytes(n.GetToken().Value)
	*s = size(v)
	return positive(n, v, err)
}

// positive returns the error of a value with its position.
func positive(n ast.Node, v int64, err error) error {
	if err == nil && v <= 0 {
		err = errors.New("it must be more than 0")
	}
	if err == nil {
		return nil
	}
	return &yaml.SyntaxError{Message: fmt.Sprintf("%q: %v", n.GetToken().Value, err), Token: n.GetToken()}
}

var (
	namePattern   = regexp.MustCompile(`^[a-z][a-z0-9-]*(\.[a-z][a-z0-9-]*)*$`)
	prefixPattern = regexp.MustCompile(`^[a-z][a-z0-9]{1,9}$`)
	yamlPlace     = regexp.MustCompile(`^\[(\d+):(\d+)\] `)
)

// Parse reads a file. The error is a [notation.Problems]: all that is wrong, with line and column.
func Parse(file string, text []byte) (*File, error) {
	d, err := notation.ParseYAML(file, text, others...)
	if err != nil {
		return nil, err
	}
	if problems := d.Lint(); len(problems) > 0 {
		return nil, notation.Problems(problems)
	}
	table, err := d.Table()
	if err != nil {
		return nil, notation.Problems{{Line: 1, Column: 1, Rule: notation.Syntax, Message: err.Error()}}
	}
	f := &File{Table: table, text: text}
	c := &checker{File: f}
	if err := c.read(); err != nil {
		return nil, notation.Problems{yamlProblem(err)}
	}
	if len(c.problems) == 0 {
		c.check()
	}
	if len(c.problems) > 0 {
		slices.SortStableFunc(c.problems, func(a, b notation.Problem) int { return cmp.Compare(a.Line, b.Line) })
		return nil, c.problems
	}
	return f, nil
}

// yamlProblem takes the position out of an error of the YAML library.
func yamlProblem(err error) notation.Problem {
	text := yaml.FormatError(err, false, false)
	p := notation.Problem{Line: 1, Column: 1, Rule: notation.Syntax}
	if m := yamlPlace.FindStringSubmatch(text); m != nil {
		p.Line, _ = strconv.Atoi(m[1])
		p.Column, _ = strconv.Atoi(m[2])
		text = text[len(m[0]):]
	}
	p.Message, _, _ = strings.Cut(text, "\n")
	return p
}

// checker collects what is wrong with the part beside the table.
type checker struct {
	*File
	root     ast.Node
	problems notation.Problems
}

func (c *checker) read() error {
	tree, err := parser.ParseBytes(c.text, 0)
	if err != nil {
		return err
	}
	c.root = tree.Docs[0].Body
	ast.Walk(aliases{c}, c.root)
	if len(c.problems) > 0 {
		return nil
	}
	return yaml.UnmarshalWithOptions(c.text, &c.spec, yaml.DisallowUnknownField())
}

// aliases refuses anchors and aliases, by which a short file can stand for a huge one.
type aliases struct{ c *checker }

// Visit is called by the YAML library.
func (a aliases) Visit(n ast.Node) ast.Visitor {
	switch n.Type() {
	case ast.AnchorType, ast.AliasType, ast.MergeKeyType:
		at := n.GetToken().Position
		a.c.problems = append(a.c.problems, notation.Problem{Line: at.Line, Column: at.Column, Rule: notation.Syntax,
			Message: "anchors and aliases are not allowed"})
	}
	return a
}

// problem notes a mistake at the node that the keys lead to, or at the last one above it that exists.
func (c *checker) problem(keys []string, format string, args ...any) {
	p := notation.Problem{Line: 1, Column: 1, Rule: notation.Syntax, Message: fmt.Sprintf(format, args...)}
	node := c.root
	for _, key := range keys {
		v := member(node, key)
		if v == nil {
			break
		}
		at := v.Key.GetToken().Position
		p.Line, p.Column, node = at.Line, at.Column, v.Value
	}
	c.problems = append(c.problems, p)
}

// member finds the entry of a mapping.
func member(n ast.Node, key string) *ast.MappingValueNode {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	}
	for _, v := range values {
		if v.Key.GetToken().Value == key {
			return v
		}
	}
	return nil
}

func (c *checker) check() {
	name, s := c.Table.Name(), &c.spec
	if len(name) > 60 || !namePattern.MatchString(name) {
		c.problem([]string{"name"}, "the name %q is not made of small letters, digits, hyphens and dots, at most 60",
			name)
	}
	if s.Prefix == "" {
		s.Prefix = letters(name)
	}
	if !prefixPattern.MatchString(s.Prefix) {
		c.problem([]string{"prefix"}, "the prefix %q is not made of 2 to 10 small letters and digits", s.Prefix)
	}
	if s.Slots == 0 {
		s.Slots = 4
	}
	if s.Slots < 0 || s.Slots > 1000 {
		c.problem([]string{"slots"}, "slots must be 1 to 1000")
	}
	for name, text := range s.Webhooks {
		if u, err := url.Parse(text); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" ||
			u.User != nil {
			c.problem([]string{"webhooks", name}, "the webhook is not a URL of http or https without a password")
		}
	}
	for i, l := range s.Limits {
		c.checkLimit(i, &l)
	}
	for _, st := range c.Table.Stages() {
		if worked := st.Kind == lifecycle.Queue || st.Kind == lifecycle.Work; worked && s.Work[st.State] == nil {
			c.problem([]string{"work"}, "the state %s is not in work: worker: true, pass: true or a command", st.State)
		}
	}
	for _, state := range slices.Sorted(maps.Keys(s.Work)) {
		if s.Work[state] != nil {
			c.checkWork(state, s.Work[state])
		}
	}
}

// letters returns the first letters of a name.
func letters(name string) string {
	text := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, name)
	return text[:min(len(text), 6)]
}

func (c *checker) checkLimit(i int, l *limit) {
	keys := []string{"limits"}
	if l.Name == "" || l.Max <= 0 {
		c.problem(keys, "limit %d needs a name and a max of at least 1", i+1)
	}
	if l.Per != "" && l.Per != "owner" && l.Per != "group" {
		c.problem(keys, "per must be owner or group, not %q", l.Per)
	}
	for _, s := range l.States {
		if _, ok := c.Table.Stage(s); !ok {
			c.problem(keys, "limit %s: the lifecycle has no state %s", l.Name, s)
		}
	}
}

func (c *checker) checkWork(state lifecycle.State, w *work) {
	keys := []string{"work", string(state)}
	st, ok := c.Table.Stage(state)
	if !ok || st.Kind != lifecycle.Queue && st.Kind != lifecycle.Work {
		c.problem(keys, "%s is not a queue or work state of the lifecycle", state)
		return
	}
	ways := 0
	for _, set := range []bool{w.Worker, w.Pass, len(w.Command) > 0} {
		if set {
			ways++
		}
	}
	if ways != 1 {
		c.problem(keys, "%s has one of worker: true, pass: true and command", state)
	}
	c.checkCommand(keys, w)
	for _, l := range w.Requires {
		if !job.IsLabel(l) {
			c.problem(append(keys, "requires"), "the label %q is not NAME or NAME=VALUE of letters, digits, -, _ and .",
				l)
		}
	}
	if w.Pass && len(w.Requires) > 0 {
		c.problem(append(keys, "requires"), "requires is for a command or worker: true")
	}
	if w.Attempts < 0 || w.Limits.Processes < 0 {
		c.problem(keys, "attempts and processes must be more than 0")
	}
	c.checkExits(append(keys, "exits"), state, w.Exits)
}

func (c *checker) checkCommand(keys []string, w *work) {
	if len(w.Command) == 0 && (w.Env != nil || w.Timeout != 0 || w.Exits != nil || w.Network != "" ||
		w.Limits.Processes != 0 || w.Limits.Memory != 0 || w.Limits.Disk != 0 || w.Limits.CPU != 0) {
		c.problem(keys, "env, timeout, exits, limits and network are for a command")
	}
	if w.Network != "" && w.Network != "none" && w.Network != "host" {
		c.problem(append(keys, "network"), "network must be none or host, not %q", w.Network)
	}
}

func (c *checker) checkExits(keys []string, state lifecycle.State, exits map[int]string) {
	for _, code := range slices.Sorted(maps.Keys(exits)) {
		e := exits[code]
		if code < 0 || code > 255 {
			c.problem(keys, "%d is not an exit code", code)
		}
		if a, ok := c.Table.Transition(state, lifecycle.Event(e)); (!ok || a.By&lifecycle.Worker == 0) &&
			!slices.Contains(words, e) {
			c.problem(keys, "%s has no event %s of a worker, and it is not success, retry or fail",
				state, e)
		}
	}
}

// The words of exits that are no events.
const (
	success = "success"
	retry   = "retry"
	fail    = "fail"
)

var words = []string{success, retry, fail}

// Lint returns all that is wrong with a file, by line. known is false if the file has no work: then it is only a
// lifecycle.
func Lint(file string, text []byte) (faults []notation.Problem, known bool) {
	if !bytes.Contains(text, []byte("\nwork:")) {
		return nil, false
	}
	_, err := Parse(file, text)
	var problems notation.Problems
	_ = errors.As(err, &problems)
	return problems, true
}
