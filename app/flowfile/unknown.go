package flowfile

import (
	"slices"
	"strings"

	"github.com/stagepost/stagepost/internal/nearest"
)

// shellSets are the variables that sh sets by itself.
var shellSets = []string{"PWD", "OLDPWD", "IFS", "PPID", "OPTIND", "OPTARG", "PS1", "PS2", "PS4", "LINENO"}

// commandHas are the variables that every command has; see [action.environment] and [Command].
var commandHas = []string{"PATH", "LANG", "HOME", "STAGEPOST_FLOW", "STAGEPOST_TASK", "STAGEPOST_KEY",
	"STAGEPOST_ATTEMPT", "STAGEPOST_FAILURE", "STAGEPOST_COMMANDS"}

// given reports whether a variable is there without being an argument: numbers are those of functions and of set.
func given(name string) bool {
	return name[0] >= '0' && name[0] <= '9' || slices.Contains(shellSets, name) || slices.Contains(commandHas, name)
}

// opaque reports whether a text for sh may set variables in a way that cannot be seen here: it reads another text, or
// has a here document that is not substituted.
func opaque(script string) bool {
	for _, word := range []string{"<<'", `<<"`, `<<\`, "<<-'", `<<-"`, "<< '", `<< "`} {
		if strings.Contains(script, word) {
			return true
		}
	}
	return slices.ContainsFunc(segments(script), func(words []string) bool {
		return slices.ContainsFunc(words, func(w string) bool {
			return slices.Contains([]string{".", "source", "eval", "mapfile", "readarray"}, w)
		})
	})
}

// segments splits a text for sh into the words of its simple commands, roughly: quotes are not examined.
func segments(script string) [][]string {
	var all [][]string
	for _, one := range strings.FieldsFunc(script, func(r rune) bool { return strings.ContainsRune("\n;|&(){}`", r) }) {
		if words := strings.Fields(one); len(words) > 0 {
			all = append(all, words)
		}
	}
	return all
}

// setsByName reports whether a command of the text sets variables that it names as words: read a b, local a b.
func setsByName(script, name string) bool {
	return slices.ContainsFunc(segments(script), func(words []string) bool {
		at := slices.IndexFunc(words, func(w string) bool {
			return slices.Contains([]string{"read", "getopts", "local", "export", "readonly", "declare", "typeset"}, w)
		})
		return at >= 0 && slices.ContainsFunc(words[at+1:], func(w string) bool {
			word, _, _ := strings.Cut(w, "=")
			return word == name
		})
	})
}

// likely names the variable that was probably meant.
func likely(name string, has map[string]bool) string {
	best := nearest.Word(name, slices.Concat(sortedKeys(has), commandHas))
	if best == "" {
		return ": add it to requires, or give it a value in the text"
	}
	return "; is it $" + best + "?"
}
