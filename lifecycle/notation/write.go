package notation

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/lifecycle"
)

// WriteYAML writes a table in the form that [ParseYAML] reads. It omits the loops that every queue and work state has;
// a state with other loops has loops: false and lists its own.
func WriteYAML(t *lifecycle.Table) []byte {
	return writeStages(t.Name(), t.Stages())
}

func writeStages(name string, stages []lifecycle.Stage) []byte {
	var b strings.Builder
	b.WriteString("name: " + scalar(name) + "\nstates:\n")
	for _, s := range stages {
		writeStage(&b, s)
	}
	return []byte(b.String())
}

func writeStage(b *strings.Builder, s lifecycle.Stage) {
	field := func(key, value string) {
		if value != "" {
			b.WriteString("    " + key + ": " + value + "\n")
		}
	}
	b.WriteString("  - state: " + scalar(string(s.State)) + "\n")
	field("kind", string(s.Kind))
	field("doc", scalar(s.Doc))
	if s.Outcome != lifecycle.None {
		field("outcome", string(s.Outcome))
	}
	if s.Restartable {
		field("restartable", "true")
	}
	if s.Endures != "" {
		field("endures", scalar(s.Endures))
	}
	if s.Limit != "" {
		field("bounded", scalar(s.Limit))
	}
	transitions, standard := ownTransitions(s)
	if !standard {
		field("loops", "false")
	}
	if len(transitions) > 0 {
		b.WriteString("    arrows:\n")
	}
	for _, a := range transitions {
		writeTransition(b, a)
	}
}

// ownTransitions returns the transitions that the kind of the state does not add. standard is false if it must not add
// any.
func ownTransitions(s lifecycle.Stage) (transitions []lifecycle.Transition, standard bool) {
	if s.Kind != lifecycle.Queue && s.Kind != lifecycle.Work {
		return s.Transitions, true
	}
	own := slices.DeleteFunc(slices.Clone(s.Transitions), func(a lifecycle.Transition) bool { return a.Stays() })
	full := lifecycle.OnWork(s.State, s.Doc, own...).Transitions
	if len(full) == len(s.Transitions) && (len(full) == 0 || reflect.DeepEqual(full, s.Transitions)) {
		return own, true
	}
	return s.Transitions, false
}

func writeTransition(b *strings.Builder, a lifecycle.Transition) {
	field := func(key, value string) { b.WriteString("        " + key + ": " + value + "\n") }
	b.WriteString("      - event: " + scalar(string(a.Event)) + "\n")
	switch a.Class {
	case lifecycle.Reenter:
		words := make([]string, len(a.States))
		for i, s := range a.States {
			words[i] = scalar(string(s))
		}
		field("reenter", "["+strings.Join(words, ", ")+"]")
	case lifecycle.Loop:
		field("class", "loop")
	default:
		field("to", scalar(string(a.To)))
		if a.Class != lifecycle.Move {
			field("class", string(a.Class))
		}
	}
	field("by", "["+strings.ReplaceAll(a.By.String(), ",", ", ")+"]")
	if a.Set != lifecycle.None {
		field("sets", string(a.Set))
	}
	if a.Need != lifecycle.None {
		field("when", string(a.Need))
	}
	if a.Restart {
		field("restart", "true")
	}
	if a.Ask {
		field("asks", "true")
	}
	if a.Budget != "" {
		field("budget", scalar(a.Budget))
	}
	field("doc", scalar(a.Doc))
}

// scalar quotes a text unless it is a word that YAML can only read as a string.
func scalar(s string) string {
	plain := s != ""
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		plain = plain && (letter || i > 0 && (r >= '0' && r <= '9' || r == '_' || r == '.'))
	}
	switch strings.ToLower(s) {
	case "true", "false", "yes", "no", "on", "off", "null", "y", "n":
		plain = false
	}
	if plain {
		return s
	}
	return strconv.Quote(s)
}
