package draw

import (
	"fmt"
	"strings"

	"github.com/stagepost/stagepost/lifecycle"
)

// Markdown writes the document of the tables: for each a diagram, then its states with their sentences and transitions.
// The transitions that stay in their state are the same in all tables and are described once.
func Markdown(tables ...*lifecycle.Table) string {
	var b strings.Builder
	b.WriteString("# Lifecycles\n\n" +
		"Generated from the tables in the code (`go test ./docs -update`); change the tables, not this page.\n\n")
	for _, t := range tables {
		anchor := strings.NewReplacer(".", "", "/", "").Replace(strings.ToLower(t.Name()))
		fmt.Fprintf(&b, "- [%s](#%s)\n", t.Name(), anchor)
	}
	b.WriteString("\n" + legend)
	for _, a := range lifecycle.OnQueue("", "").Transitions {
		fmt.Fprintf(&b, "- **%s** (%s, within %s): %s.\n", a.Event, a.By, a.Budget, a.Doc)
	}
	for _, t := range tables {
		section(&b, t)
	}
	return b.String()
}

const legend = "## How to read them\n\n" +
	"The first state is the start. A *queue* state waits for a worker, a *work* state is worked on under a claim,\n" +
	"a *wait* state waits for a person, a timer, the engine or something outside, and only an operator, retention\n" +
	"or a restart leaves an *end*.\n\n" +
	"*by* names the actors that may cause a transition. *sets* is the outcome that a transition decides, *when* the\n" +
	"outcome that it needs. *restarts* means that it empties the outcome, *asks its worker* that the worker keeps\n" +
	"its claim and is notified. *within* is the limit that ends a circle without people. A transition back to\n" +
	"*where it failed* goes to the state that the last failure left, if that is one of the states named.\n\n" +
	"Queue and work states have these additional transitions, which stay in the state:\n\n"

func section(b *strings.Builder, t *lifecycle.Table) {
	fmt.Fprintf(b, "\n## %s\n\n```mermaid\n%s```\n", t.Name(), Mermaid(t, View{}))
	for _, s := range t.Stages() {
		fmt.Fprintf(b, "\n### %s: %s\n\n*%s*", t.Name(), s.State, s.Kind)
		if s.Kind == lifecycle.End && s.Outcome != lifecycle.None {
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
		rows(b, s)
	}
}

func rows(b *strings.Builder, s lifecycle.Stage) {
	wrote := false
	for _, a := range s.Transitions {
		if a.Stays() {
			continue
		}
		if !wrote {
			b.WriteString("\n| event | to | by | when it happens |\n|---|---|---|---|\n")
			wrote = true
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", cell(string(a.Event)), cell(destination(a)),
			strings.ReplaceAll(a.By.String(), ",", ", "), cell(a.Doc+notes(a)))
	}
}

func destination(a lifecycle.Transition) string {
	if a.Class != lifecycle.Reenter {
		return string(a.To)
	}
	words := make([]string, len(a.States))
	for i, s := range a.States {
		words[i] = string(s)
	}
	return "where it failed: " + strings.Join(words, ", ")
}

// notes adds what a transition does to the outcome, and its limit.
func notes(a lifecycle.Transition) string {
	var all []string
	if a.Need != lifecycle.None {
		all = append(all, "when *"+string(a.Need)+"*")
	}
	if a.Set != lifecycle.None {
		all = append(all, "sets *"+string(a.Set)+"*")
	}
	if a.Restart {
		all = append(all, "restarts")
	}
	if a.Ask {
		all = append(all, "asks its worker")
	}
	if a.Budget != "" {
		all = append(all, "within "+a.Budget)
	}
	if len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, "; ") + ")"
}

// cell escapes a text for one cell of a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "\r", "").Replace(s)
}
