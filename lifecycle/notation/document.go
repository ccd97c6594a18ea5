package notation

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/lifecycle"
)

// Limits of a document. A larger one is refused before it is checked.
const (
	maxBytes       = 1 << 18
	maxLine        = 4096
	maxStates      = 400
	maxTransitions = 4000
	maxProblems    = 100 // reported of one document
)

// Syntax is the rule of problems that prevent the reading of a document.
const Syntax lifecycle.Rule = "syntax"

// Position is a position in a document. Both numbers count from 1, columns in characters.
type Position struct{ Line, Column int }

// Problem is a fault of a document: of its syntax, or of a rule of lifecycles.
type Problem struct {
	Line    int            `json:"line"`
	Column  int            `json:"column"`
	Rule    lifecycle.Rule `json:"rule"`
	Message string         `json:"message"`
}

func (p Problem) String() string {
	return fmt.Sprintf("%d:%d: %s [%s]", p.Line, p.Column, p.Message, p.Rule)
}

// Problems is the error of a document that cannot be read. It has all faults of its syntax in the order of the lines.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.String()
	}
	return strings.Join(lines, "\n")
}

// Format is a notation for lifecycles.
type Format string

// The formats; see the package documentation.
const (
	YAML    Format = "yaml"
	Mermaid Format = "mermaid"
)

// Document is a lifecycle as described by a file. Its stages may violate the rules of a table.
type Document struct {
	File   string
	Name   string
	Format Format
	Stages []lifecycle.Stage
	Parts  []*Document // Mermaid: the lifecycles inside states that have parallel regions

	start       Position
	states      []Position   // of the stages
	transitions [][]Position // of their transitions, without those that the kind of a state adds
	described   bool         // whether any state of a Mermaid document has a description
}

// Table makes a table of the stages. The error is a [lifecycle.Faults].
func (d *Document) Table() (*lifecycle.Table, error) { return lifecycle.New(d.Name, d.Stages...) }

// Position returns the position of a state or, if the event is not empty, of its transition for the event, the last one
// if there are several. Without either it returns the start of the document.
func (d *Document) Position(s lifecycle.State, e lifecycle.Event) Position {
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

// nth returns the position of transition n for the event, counted from 0.
func (d *Document) nth(s lifecycle.State, e lifecycle.Event, n int) Position {
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
	return d.Position(s, e)
}

// Parse reads a lifecycle. The format is Mermaid if the first line with content names a diagram, else YAML. The error
// is a [Problems].
func Parse(file string, text []byte) (*Document, error) {
	if isMermaid(text) {
		return ParseMermaid(file, text)
	}
	return ParseYAML(file, text)
}

// isMermaid checks the first line that is neither empty, a comment, nor front matter.
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

// Lint returns the faults of a document by position: those of its syntax if it cannot be read, else all violations of
// the rules. A diagram has no actors, limits or deadlines, so that only the rules about its shape are checked.
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

// shape has the rules that are checked for a diagram.
var shape = []lifecycle.Rule{
	lifecycle.NoStages, lifecycle.TwoTransitions, lifecycle.Unreachable, lifecycle.DeadEnd, lifecycle.EndLeft,
	lifecycle.WrongOutcome, lifecycle.NoBudget,
}

// Lint returns all violations of the rules in a document and its parts, by position.
func (d *Document) Lint() []Problem {
	var problems []Problem
	again := map[lifecycle.Fault]int{} // the n-th equal fault belongs to the n-th transition
	for _, f := range lifecycle.Check(d.Name, d.Stages...) {
		if d.Format == Mermaid && !slices.Contains(shape, f.Rule) &&
			!(f.Rule == lifecycle.MissingSentence && f.Event == "" && d.described) {
			continue
		}
		at := d.Position(f.State, f.Event)
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

// tooLarge refuses a document that is too large to check.
func (d *Document) tooLarge() error {
	n := 0
	for _, s := range d.Stages {
		n += len(s.Transitions)
		for _, a := range s.Transitions {
			n += len(a.States)
		}
	}
	if len(d.Stages) > maxStates || n > maxTransitions {
		message := fmt.Sprintf("%d states and %d transitions are more than can be checked (%d and %d)",
			len(d.Stages), n, maxStates, maxTransitions)
		return Problems{{1, 1, Syntax, message}}
	}
	return nil
}

func tooLong(text []byte) error {
	if len(text) > maxBytes {
		return Problems{{1, 1, Syntax, fmt.Sprintf("the document has %d bytes, more than %d", len(text), maxBytes)}}
	}
	return nil
}
