package lifecycle

import (
	"fmt"
	"strings"
)

// Markdown writes the document of the tables: for each a diagram, then its states with their sentences and arrows. The
// arrows that stay in their state are the same everywhere and are described once.
func Markdown(tables ...*Table) string {
	var b strings.Builder
	b.WriteString("# Lifecycles\n\nGenerated from the tables in the code (`go test ./docs -update`); change the tables, not this page.\n\n")
	for _, t := range tables {
		fmt.Fprintf(&b, "- [%s](#%s)\n", t.name, strings.NewReplacer(".", "", "/", "").Replace(strings.ToLower(t.name)))
	}
	b.WriteString("\n" + legend)
	for _, a := range loops("") {
		fmt.Fprintf(&b, "- **%s** (%s, within %s): %s.\n", a.Event, a.By, a.Budget, a.Doc)
	}
	for _, t := range tables {
		t.section(&b)
	}
	return b.String()
}

const legend = "## How to read them\n\n" +
	"The first state is the start. A *queue* state waits for a worker, a *work* state is worked on under a claim, a *wait* state waits\n" +
	"for a person, a timer, the engine or something outside, and an *end* is left only by an operator, by retention or to run again.\n" +
	"*by* tells who may cause an arrow. *sets* is the outcome that an arrow decides, *when* the outcome that it needs, *restarts* that it\n" +
	"empties the outcome, *asks its worker* that the worker at it keeps the job and is told, and *within* the limit that ends a circle nobody\n" +
	"watches. An arrow back to *where it failed* goes to the state that the last failure left, if that is one of the states named.\n\n" +
	"Queue and work states have four arrows more, which stay in the state:\n\n"

func (t *Table) section(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n```mermaid\n%s```\n", t.name, t.Mermaid(View{}))
	for _, s := range t.stages {
		fmt.Fprintf(b, "\n### %s: %s\n\n*%s*", t.name, s.State, s.Kind)
		if s.Kind == End && s.Outcome != None {
			fmt.Fprintf(b, ", outcome *%s*", s.Outcome)
		}
		if s.Restartable {
			b.WriteString(", can be run again")
		}
		fmt.Fprintf(b, ". %s\n", s.Doc)
		if s.Endures != "" {
			fmt.Fprintf(b, "It has no failure exit: %s.\n", s.Endures)
		}
		if s.Limit != "" {
			fmt.Fprintf(b, "It has no failure exit: %s.\n", s.Limit)
		}
		s.rows(b)
	}
}

func (s Stage) rows(b *strings.Builder) {
	wrote := false
	for _, a := range s.Arrows {
		if a.Stays() {
			continue
		}
		if !wrote {
			b.WriteString("\n| event | to | by | when it happens |\n|---|---|---|---|\n")
			wrote = true
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", cell(string(a.Event)), cell(a.destination()), strings.ReplaceAll(a.By.String(), ",", ", "), cell(a.Doc+a.notes()))
	}
}

func (a Arrow) destination() string {
	if a.Class != Reenter {
		return string(a.To)
	}
	words := make([]string, len(a.States))
	for i, s := range a.States {
		words[i] = string(s)
	}
	return "where it failed: " + strings.Join(words, ", ")
}

// notes adds what an arrow does to the outcome, and its limit.
func (a Arrow) notes() string {
	var notes []string
	if a.Need != None {
		notes = append(notes, "when *"+string(a.Need)+"*")
	}
	if a.Set != None {
		notes = append(notes, "sets *"+string(a.Set)+"*")
	}
	if a.Restart {
		notes = append(notes, "restarts")
	}
	if a.Ask {
		notes = append(notes, "asks its worker")
	}
	if a.Budget != "" {
		notes = append(notes, "within "+a.Budget)
	}
	if len(notes) == 0 {
		return ""
	}
	return " (" + strings.Join(notes, "; ") + ")"
}

// cell keeps a text within one cell of a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "\r", "").Replace(s)
}
