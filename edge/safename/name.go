// Package safename converts untrusted names (manifest rows, archive entries, multipart file names, API fields) to
// paths below a directory.
//
// Clean checks a name in all its forms, so that no form passes that acts as another one. It returns the name
// unchanged: a relative path with slashes for which filepath.IsLocal holds. Plain file functions are still not
// allowed: all access uses os.Root, which also stops symbolic links.
package safename

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Rules define which names are refused.
type Rules uint8

const (
	// Portable refuses names that some common system cannot store, or displays as another name.
	Portable Rules = iota
	// AsGiven accepts names that a POSIX file system and OCFL can store. It refuses names that leave their directory
	// on any system, control characters, which the lists of files cannot hold, and invalid UTF-8.
	AsGiven
)

// Limits in bytes: those of common file systems.
const (
	MaxComponent = 255
	MaxPath      = 4096
)

// Rule is the reason why a name was refused.
type Rule string

// Rules of Clean, in the order of their checks.
const (
	Empty         Rule = "empty"                        // no name, or only "." components
	Encoding      Rule = "not UTF-8"                    // or U+FFFD, which replaces a lost character
	TooLong       Rule = "too long"                     // MaxComponent or MaxPath
	Control       Rule = "control character"            // C0, DEL, C1, line separators, noncharacters
	Bidi          Rule = "bidirectional control"        // displays a name in another order
	Backslash     Rule = "backslash"                    // a separator on some systems
	Absolute      Rule = "absolute"                     // begins with a slash
	Drive         Rule = "drive letter"                 // C:x, C:/x
	EmptyPart     Rule = "empty component"              // a//b, a/
	Parent        Rule = "parent directory"             // ".."
	Dots          Rule = "only dots and spaces"         // "...", " ", ". ."
	Reserved      Rule = "reserved device name"         // CON, nul.txt, COM1, on Windows
	Compatibility Rule = "parent directory in disguise" // becomes "..", or absolute, under NFKC
)

// Rules of Set.
const (
	Duplicate Rule = "duplicate"
	Collision Rule = "same as another name but for case, form or trailing dots"
	Conflict  Rule = "file and directory of one name"
)

// Error is the refusal of a name by a rule.
type Error struct {
	Name string
	Rule Rule
}

func (e *Error) Error() string {
	name := e.Name
	if len(name) > 120 {
		at := 120
		for at > 117 && !utf8.RuneStart(name[at]) { // between characters
			at--
		}
		name = name[:at] + "..."
	}
	return fmt.Sprintf("name %q: %s", name, string(e.Rule))
}

// Clean is Clean of the rules Portable.
func Clean(name string) (string, error) { return Portable.Clean(name) }

// Clean returns the path of name, or an *Error. It drops "." components ("./a" is common in tar files). Everything
// else stays unchanged or is refused, never repaired. Trailing dots and spaces ("Smith Jr.") are legitimate in
// collections and stay; Set detects their collisions on file systems that ignore them. Clean of its own result is
// that result.
func (r Rules) Clean(name string) (string, error) {
	refuse := func(rule Rule) (string, error) { return "", &Error{name, rule} }
	if name == "" {
		return refuse(Empty)
	}
	if len(name) > 4*MaxPath {
		return refuse(TooLong) // before the costs of the other forms
	}
	if !utf8.ValidString(name) {
		return refuse(Encoding)
	}
	if rule := r.runes(name); rule != "" {
		return refuse(rule)
	}
	if name[0] == '/' {
		return refuse(Absolute)
	}
	if r.drive(name) {
		return refuse(Drive)
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		if part == "." {
			continue
		}
		if rule := r.component(part); rule != "" {
			return refuse(rule)
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return refuse(Empty)
	}
	clean := strings.Join(parts, "/")
	switch {
	case len(clean) > MaxPath:
		return refuse(TooLong)
	case r.drive(clean):
		return refuse(Drive) // "./C:/x"
	case r == Portable && disguised(clean):
		return refuse(Compatibility)
	}
	if rule := slashed(clean); rule != "" {
		return refuse(rule)
	}
	return clean, nil
}

func (r Rules) runes(s string) Rule {
	for _, c := range s {
		switch {
		case c == utf8.RuneError:
			return Encoding
		case unicode.IsControl(c):
			return Control
		case r == AsGiven:
		case c == 0x2028, c == 0x2029, c == 0xfeff, c&0xfffe == 0xfffe, c >= 0xfdd0 && c <= 0xfdef:
			return Control
		case unicode.Is(unicode.Bidi_Control, c):
			return Bidi
		case c == '\\':
			return Backslash
		}
	}
	return ""
}

// drive finds names that begin with a drive letter: for Portable "C:" and all after it, for AsGiven with a separator,
// which is absolute on some systems.
func (r Rules) drive(name string) bool {
	if len(name) < 2 || name[1] != ':' || name[0]|0x20 < 'a' || name[0]|0x20 > 'z' {
		return false
	}
	return r == Portable || len(name) > 2 && (name[2] == '/' || name[2] == '\\')
}

func (r Rules) component(part string) Rule {
	switch {
	case part == "":
		return EmptyPart
	case part == "..":
		return Parent
	case len(part) > MaxComponent:
		return TooLong
	case r == AsGiven:
		return ""
	case strings.Trim(part, ". ") == "":
		return Dots
	case device(part):
		return Reserved
	}
	return ""
}

// slashed finds names that leave their directory if a backslash is a separator.
func slashed(clean string) Rule {
	if !strings.Contains(clean, `\`) {
		return ""
	}
	if clean[0] == '\\' {
		return Absolute
	}
	for part := range strings.SplitSeq(strings.ReplaceAll(clean, `\`, "/"), "/") {
		if part == ".." {
			return Parent
		}
	}
	return ""
}

// device follows the rules of Windows: the part before the first dot or colon, without trailing spaces, in any case.
func device(part string) bool {
	base, _, _ := strings.Cut(part, ".")
	base, _, _ = strings.Cut(base, ":")
	base = strings.ToUpper(strings.TrimRight(base, " "))
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$":
		return true
	}
	if number, ok := strings.CutPrefix(base, "COM"); ok {
		return digit(number)
	}
	number, ok := strings.CutPrefix(base, "LPT")
	return ok && digit(number)
}

func digit(s string) bool {
	r, size := utf8.DecodeRuneInString(s)
	return size > 0 && size == len(s) && strings.ContainsRune("0123456789¹²³", r)
}

// disguised finds names that a later compatibility normalization would turn into one that leaves the directory:
// full-width dots and slashes, the one-dot leader and similar (the pattern of CVE-2023-42183).
func disguised(clean string) bool {
	k := norm.NFKC.String(clean)
	if k == clean {
		return false
	}
	k = strings.ReplaceAll(k, "\\", "/")
	if path.IsAbs(k) {
		return true
	}
	for part := range strings.SplitSeq(k, "/") {
		if part == ".." {
			return true
		}
	}
	return false
}
