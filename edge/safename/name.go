// Package safename is the one place where names that strangers chose (manifest rows, archive entries, multipart file names,
// API fields) become paths below a directory of ours.
//
// Clean normalizes first and judges afterwards, so that nothing can pass in one form and act in another. What it returns
// is a relative path with slashes in NFC for which filepath.IsLocal holds. It is no licence to use plain file
// functions: all access still goes through os.Root, which also stops symbolic links.
//
// Source: spec/reliability.md S3.
package safename

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Limits in bytes after normalization: what common file systems take.
const (
	MaxComponent = 255
	MaxPath      = 4096
)

// Rule names the reason why a name was refused.
type Rule string

// Rules of Clean, in the order in which they are asked.
const (
	Empty         Rule = "empty"                        // no name, or nothing but "." components
	Encoding      Rule = "not UTF-8"                    //
	TooLong       Rule = "too long"                     // MaxComponent or MaxPath
	Control       Rule = "control character"            // C0, DEL, C1, line separators, noncharacters
	Bidi          Rule = "bidirectional control"        // shows a name otherwise than it is
	Backslash     Rule = "backslash"                    // a separator elsewhere
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

// Error says which rule refuses which name.
type Error struct {
	Name string
	Rule Rule
}

func (e *Error) Error() string {
	name := e.Name
	if len(name) > 120 {
		name = name[:120] + "..."
	}
	return fmt.Sprintf("name %q: %s", name, string(e.Rule))
}

// Clean gives the path that name stands for, or an *Error. "." components are dropped ("./a" is common in tar files);
// everything else that is odd is refused rather than repaired. Trailing dots and spaces ("Smith Jr.") are legitimate in
// collections and stay; Set sees to it that they cannot collide where a file system ignores them.
// Clean of its own result is that result.
func Clean(name string) (string, error) {
	refuse := func(r Rule) (string, error) { return "", &Error{name, r} }
	if name == "" {
		return refuse(Empty)
	}
	if len(name) > 4*MaxPath {
		return refuse(TooLong) // before normalization is paid for
	}
	if !utf8.ValidString(name) {
		return refuse(Encoding)
	}
	clean := norm.NFC.String(name)
	if rule := runes(clean); rule != "" {
		return refuse(rule)
	}
	if clean[0] == '/' {
		return refuse(Absolute)
	}
	if len(clean) >= 2 && clean[1] == ':' && (clean[0]|0x20 >= 'a' && clean[0]|0x20 <= 'z') {
		return refuse(Drive)
	}
	var parts []string
	for part := range strings.SplitSeq(clean, "/") {
		if part == "." {
			continue
		}
		if rule := component(part); rule != "" {
			return refuse(rule)
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return refuse(Empty)
	}
	clean = strings.Join(parts, "/")
	switch {
	case len(clean) > MaxPath:
		return refuse(TooLong)
	case len(clean) >= 2 && clean[1] == ':' && (clean[0]|0x20 >= 'a' && clean[0]|0x20 <= 'z'):
		return refuse(Drive) // "./C:/x"
	case disguised(clean):
		return refuse(Compatibility)
	}
	return clean, nil
}

func runes(s string) Rule {
	for _, r := range s {
		switch {
		case unicode.IsControl(r), r == 0x2028, r == 0x2029, r == 0xfeff, r&0xfffe == 0xfffe, r >= 0xfdd0 && r <= 0xfdef:
			return Control
		case unicode.Is(unicode.Bidi_Control, r):
			return Bidi
		case r == '\\':
			return Backslash
		}
	}
	return ""
}

func component(part string) Rule {
	switch {
	case part == "":
		return EmptyPart
	case part == "..":
		return Parent
	case strings.Trim(part, ". ") == "":
		return Dots
	case len(part) > MaxComponent:
		return TooLong
	case device(part):
		return Reserved
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

// disguised finds names that a later compatibility normalization, by whoever reads them, would turn into a way out:
// full-width dots and slashes, the one-dot leader and the like (the pattern of CVE-2023-42183).
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
