package notation

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/lifecycle"
)

// What a document may hold at most; larger ones are refused before they cost time.
const (
	maxBytes       = 1 << 18
	maxLine        = 4096
	maxStates      = 400
	maxTransitions = 4000
	maxProblems    = 100 // reported of one document
)

// Syntax is the rule of problems that stand in the way of reading a document at all.
const Syntax lifecycle.Rule = "syntax"

// Position is where something stands in a document; both count from 1, columns in characters.
type Place struct{ Line, Column int }

// Problem is something wrong with a document: a mistake of syntax, or a breach of one of the rules of a lifecycle.
type Problem struct {
	Line    int            `json:"line"`
	Column  int            `json:"column"`
	Rule    lifecycle.Rule `json:"rule"`
	Message string         `json:"message"`
}

func (p Problem) String() string {
	return fmt.Sprintf("%d:%d: %s [%s]", p.Line, p.Column, p.Message, p.Rule)
}

// Problems is the error of a document that cannot be read: all that is wrong with its syntax, in the order of the
// lines.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.String()
	}
	return strings.Join(lines, "\n")
}

// Format is a way to write a lifecycle down.
type Format string

// The formats; see the package documentation.
const (
	YAML    Format = "yaml"
	Mermaid Format = "mermaid"
)

// Document is a lifecycle as a file describes it. Its stages may breach the rules of a table.
type Document struct {
	File   string
	Name   string
	Format Format
	Stages []lifecycle.Stage
	Parts  []*Document // Mermaid: the lifecycles inside states that have parallel regions

	start       Place
	states      []Place   // of the stages
	transitions [][]Place // of their transitions; those that the kind of a state adds have none
	described   bool      // whether any state of a Mermaid document has a description
}

// Table makes a table of the stages. The error is a [lifecycle.Faults].
func (d *Document) Table() (*lifecycle.Table, error) { return lifecycle.New(d.Name, d.Stages...) }

// Position gives where the state is described or, if the event is not empty, where its transition is; the start of the
// document when it has neither. Of several transitions for one event it gives the last.
func (d *Document) Place(s lifecycle.State, e lifecycle.Event) Place {
	at := d.start
	for i, stage := range d.Stages {
		if stage.State != s {
			continue
		}
		at = d.states[i]
		for j, a := range stage.Transitions {
			if a.Event == e && j < len(d.transitions[i]) {
				at = d.transitions[i][j]
			}
		}
	}
	return at
}

// nth gives the position of transition n for the event, counted from 0.
func (d *Document) nth(s lifecycle.State, e lifecycle.Event, n int) Place {
	for i, stage := range d.Stages {
		for j, a := range stage.Transitions {
			if stage.State != s || a.Event != e || j >= len(d.transitions[i]) {
				continue
			}
			if n == 0 {
				return d.transitions[i][j]
			}
			n--
		}
	}
	return d.Place(s, e)
}

// Parse reads a lifecycle in the format that the text has: a diagram if its first line that states anything names one,
// else YAML. The error is a [Problems].
func Parse(file string, text []byte) (*Document, error) {
	if isMermaid(text) {
		return ParseMermaid(file, text)
	}
	return ParseYAML(file, text)
}

// isMermaid examines the first line that is neither empty, a comment, nor front matter.
func isMermaid(text []byte) bool {
	front := false
	for i, line := range bytes.Split(text, []byte("\n")) {
		words := bytes.Fields(bytes.TrimSuffix(line, []byte(";")))
		switch {
		case len(words) == 1 && string(words[0]) == "---" && (i == 0 || front):
			front = !front
		case front, len(words) == 0, bytes.HasPrefix(words[0], []byte("%%")):
		default:
			return slices.Contains([]string{"stateDiagram", "stateDiagram-v2", "graph", "flowchart"}, string(words[0]))
		}
	}
	return false
}

// Lint gives all that is wrong with a document, by position: its syntax if it cannot be read, else every breach of the
// rules. A diagram has no actors, limits or deadlines, so only the rules that concern its shape are held against it.
func Lint(file string, text []byte) []Problem {
	d, err := Parse(file, text)
	if err != nil {
		if problems, ok := err.(Problems); ok {
			return problems
		}
		return []Problem{{1, 1, Syntax, err.Error()}}
	}
	return d.Lint()
}

// shape are the rules that a diagram can be held against.
var shape = []lifecycle.Rule{
	lifecycle.NoStages, lifecycle.TwoTransitions, lifecycle.Unreachable, lifecycle.DeadEnd, lifecycle.EndLeft,
	lifecycle.WrongOutcome, lifecycle.NoBudget,
}

// Lint gives every breach of the rules in a document, its parts included, by position.
func (d *Document) Lint() []Problem {
	var problems []Problem
	again := map[lifecycle.Fault]int{} // equal faults belong to one transition after the other
	for _, f := range lifecycle.Check(d.Name, d.Stages...) {
		if d.Format == Mermaid && !slices.Contains(shape, f.Rule) &&
			!(f.Rule == lifecycle.MissingSentence && f.Event == "" && d.described) {
			continue
		}
		at := d.Place(f.State, f.Event)
		if f.Rule == lifecycle.TwoTransitions {
			again[f]++
			at = d.nth(f.State, f.Event, again[f])
		}
		message := f.Detail
		if f.State != "" {
			message = string(f.State) + ": " + message
		}
		if f.Event != "" {
			message = fmt.Sprintf("%s -%s->: %s", f.State, f.Event, f.Detail)
		}
		problems = append(problems, Problem{at.Line, at.Column, f.Rule, message})
	}
	for _, part := range d.Parts {
		problems = append(problems, part.Lint()...)
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return problems
}

// tooLarge refuses what would cost too much to check.
func (d *Document) tooLarge() error {
	n := 0
	for _, s := range d.Stages {
		n += len(s.Transitions)
		for _, a := range s.Transitions {
			n += len(a.States)
		}
	}
	if len(d.Stages) > maxStates || n > maxTransitions {
		return Problems{{1, 1, Syntax, fmt.Sprintf("%d states and %d transitions are more than can be checked (%d and %d)",
			len(d.Stages), n, maxStates, maxTransitions)}}
	}
	return nil
}

func tooLong(text []byte) error {
	if len(text) > maxBytes {
		return Problems{{1, 1, Syntax, fmt.Sprintf("the document has %d bytes, more than %d", len(text), maxBytes)}}
	}
	return nil
}
