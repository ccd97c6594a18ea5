package tree

import (
	"regexp"
	"strings"
)

// MaxFile is the greatest size of a file in bytes.
const MaxFile = 1 << 20

// Bounds of a text. Beyond them the YAML library takes quadratic time, or memory far larger than the text. Files that
// people write are far below them.
const (
	maxKeys     = 1_000  // of one mapping
	maxBrackets = 10_000 // [ and { in all
	maxEmpty    = 20_000 // keys and items without a value
	maxMarks    = 500    // of one kind in one line, or anchors and tags in all
)

var anchorOrTag = regexp.MustCompile(`(^|[\s,\[{:-])[&!][A-Za-z0-9!]`)

// weigh refuses texts for which the YAML library would need more than a few seconds or much memory, before that
// library reads them. It overestimates rather than underestimates.
func weigh(text []byte) *Error {
	if len(text) > MaxFile {
		return wrong(Position{1, 1}, "the file has more than %d bytes", MaxFile)
	}
	brackets, anchors, empty := 0, 0, 0
	keys := map[int]int{} // by indentation: consecutive lines that may be keys of one mapping
	for i, line := range strings.Split(string(text), "\n") {
		say := func(format string, args ...any) *Error { return wrong(Position{i + 1, 1}, format, args...) }
		body := strings.TrimLeft(line, " ")
		indent := len(line) - len(body)
		if body != "" && body[0] != '#' {
			for at := range keys {
				if at > indent { // a hyphen below a key ends no mapping: the list may be the value of that key
					delete(keys, at)
				}
			}
		}
		if strings.Contains(body, ":") && body[0] != '-' {
			if keys[indent]++; keys[indent] > maxKeys {
				return say("more than %d keys one below the other", maxKeys)
			}
		}
		if brackets += strings.Count(line, "[") + strings.Count(line, "{"); brackets > maxBrackets {
			return say("more than %d brackets and braces: long lists are written line by line, or given as an input",
				maxBrackets)
		}
		if empty += valueless(body); empty > maxEmpty {
			return say("more than %d keys and items without a value of their own: long lists are written line by "+
				"line, or given as an input", maxEmpty)
		}
		if anchors += len(anchorOrTag.FindAllString(line, -1)); anchors > maxMarks {
			return say("more than %d anchors and tags", maxMarks)
		}
		for _, mark := range []string{": ", "- ", "? ", "-\t", ":\t"} {
			if strings.Count(line, mark) > maxMarks {
				return say("more than %d times %q in one line", maxMarks, mark)
			}
		}
	}
	return nil
}

// valueless counts the parts of a line to which the library may give an empty value: "key:" and "-" at its end, "?",
// and entries between commas without a certain colon.
func valueless(line string) int {
	line, _, _ = strings.Cut(line, " #")
	line = strings.TrimSpace(line)
	n := 0
	if strings.HasSuffix(line, ":") || strings.HasSuffix(line, "-") || strings.HasPrefix(line, "?") {
		n++
	}
	if !strings.Contains(line, ",") {
		return n
	}
	for entry := range strings.SplitSeq(line, ",") {
		if !strings.Contains(entry, ":") || strings.ContainsAny(entry, `'"`) ||
			strings.HasSuffix(strings.TrimSpace(entry), ":") {
			n++
		}
	}
	return n
}
