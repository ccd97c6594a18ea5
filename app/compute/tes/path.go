package tes

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Where things lie below the directory in which run.sh works.
const (
	rootName  = "tes"     // the root of the task's paths
	logName   = "tes.log" // what the executors did
	inputName = "tes.in." // the inputs, with their number behind
)

// system are directories that no task takes for its own because a file of it lies there.
var system = []string{"/", "/bin", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/proc", "/root",
	"/home", "/run", "/sbin", "/sys", "/usr", "/var"}

// cleaned checks a path of a task and gives it in its shortest form.
func cleaned(what, name string) (string, error) {
	switch {
	case name == "":
		return "", fmt.Errorf("%s is missing", what)
	case !strings.HasPrefix(name, "/"):
		return "", fmt.Errorf("%s %.100q must be an absolute path", what, name)
	case len(name) > 2048 || !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return "", fmt.Errorf("%s %.100q is longer than 2048 bytes, has a NUL in it, or is no text", what, name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." || len(part) > 255 {
			return "", fmt.Errorf("%s %.100q must have no .. in it and no name of more than 255 bytes", what, name)
		}
	}
	if name = path.Clean(name); name == "/" {
		return "", fmt.Errorf("%s must not be the root of all paths", what)
	}
	return name, nil
}

// paths are those that a task speaks of, the longest first.
type paths []string

// declare adds a path, and the directory in which it lies.
func (p *paths) declare(name string) {
	for _, one := range []string{name, path.Dir(name)} {
		if one != "/" && (one == name || !inSystem(one)) && !slices.Contains(*p, one) {
			*p = append(*p, one)
		}
	}
}

func inSystem(dir string) bool {
	for _, s := range system {
		if dir == s || s != "/" && s != "/home" && s != "/root" && strings.HasPrefix(dir, s+"/") {
			return true
		}
	}
	return false
}

func (p paths) sort() {
	slices.SortFunc(p, func(a, b string) int { return len(b) - len(a) })
}

// at reports how long the path is that begins at an offset of a text; 0: none.
func (p paths) at(text string, i int) int {
	if text[i] != '/' || i > 0 && within(text[i-1]) {
		return 0
	}
	for _, one := range p {
		if rest, ok := strings.CutPrefix(text[i:], one); ok && (rest == "" || rest[0] == '/' || !name(rest[0])) {
			return len(one)
		}
	}
	return 0
}

// name reports whether a byte continues a name.
func name(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80 ||
		strings.IndexByte("_.~-", c) >= 0
}

// within reports whether a slash behind a byte goes on with a path that began before.
func within(c byte) bool { return name(c) || strings.IndexByte("/})]*?$@%+#\\", c) >= 0 }

// word writes a text as one word of bash. Paths of the task in it are led below $tes. Only what stands here as "$tes"
// is ever expanded.
func (p paths) word(text string) string {
	var b strings.Builder
	from := 0
	for i := 0; i < len(text); i++ {
		if n := p.at(text, i); n > 0 {
			if i > from {
				b.WriteString(quoted(text[from:i]))
			}
			b.WriteString(`"$tes"`)
			from = i
			i += n - 1
		}
	}
	if from < len(text) || len(text) == 0 {
		b.WriteString(quoted(text[from:]))
	}
	return b.String()
}

// below writes where a path of the task lies as one word of bash.
func below(name string) string { return `"$tes"` + quoted(name) }

// quoted quotes a text for bash, whatever it holds but a NUL.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
