package collect

import (
	"errors"
	"fmt"
	"hash/maphash"
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName is the longest path that can be unpacked on Linux in one piece (a ZIP could hold 65535 bytes).
const maxName = 4095

// Spell returns a name that can be stored, displayed and unpacked anywhere: bytes that are not UTF-8, control and
// bidirectional characters, backslashes, components of dots and spaces only and a drive's colon become %XX. A safe
// name stays unchanged, also one with a percent sign.
func Spell(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = spellPart(part, i == 0)
	}
	return strings.Join(parts, "/")
}

func spellPart(part string, first bool) string {
	var b strings.Builder
	for i := 0; i < len(part); {
		r, n := utf8.DecodeRuneInString(part[i:])
		if bad := r == utf8.RuneError && n == 1 || !storable(r) || first && i == 1 && r == ':' &&
			isLetter(part[0]); bad {
			for _, c := range []byte(part[i : i+n]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		} else {
			b.WriteString(part[i : i+n])
		}
		i += n
	}
	s := b.String()
	if s != "" && strings.Trim(s, ". ") == "" {
		return fmt.Sprintf("%%%02X", s[0]) + s[1:]
	}
	return s
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func storable(r rune) bool {
	return r != '\\' && r != 0x2028 && r != 0x2029 && !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r)
}

// short is a printable name for a manifest or an error: unchanged, or with the escapes of Go's strings.
func short(name string) string {
	const most = 200
	cut := ""
	if len(name) > most {
		name, cut = strings.ToValidUTF8(name[:most/2], ""), fmt.Sprintf("... (%d bytes)", len(name))
	}
	if utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return name + cut
	}
	quoted := strconv.QuoteToGraphic(name)
	return quoted[1:len(quoted)-1] + cut
}

// names is the set of used names. It keeps a hash of each, not the name: a million names take some 20 MB.
type names struct {
	seed maphash.Seed
	seen map[uint64]struct{}
}

func newNames() *names { return &names{maphash.MakeSeed(), map[uint64]struct{}{}} }

func (n *names) has(name string) bool {
	_, ok := n.seen[maphash.String(n.seed, name)]
	return ok
}

// add reports whether the name was free.
func (n *names) add(name string) bool {
	key := maphash.String(n.seed, name)
	if _, taken := n.seen[key]; taken {
		return false
	}
	n.seen[key] = struct{}{}
	return true
}

// free reserves the name, or the first of name~1, name~2 ... that is free.
func (n *names) free(name string) string {
	as := name
	for i := 1; !n.add(as); i++ {
		as = fmt.Sprintf("%s~%d", name, i)
	}
	return as
}

var errOutside = errors.New("leads out of the directory")

// checkLink reports whether a symbolic link called name may be stored with this target: one that stays inside the
// tree wherever it is unpacked. A ".." after another component is refused: that component may be a link itself, so
// that its parent is elsewhere.
func checkLink(name, target string) error {
	if target == "" || len(target) > 4096 || !utf8.ValidString(target) ||
		strings.ContainsFunc(target, func(r rune) bool { return !storable(r) }) {
		return errors.New("has a target that cannot be stored")
	}
	if path.IsAbs(target) || len(target) > 1 && target[1] == ':' && isLetter(target[0]) {
		return errOutside
	}
	depth, down := strings.Count(name, "/"), false
	for part := range strings.SplitSeq(target, "/") {
		switch {
		case part == "" || part == ".":
		case part != "..":
			down = true
		case down || depth == 0:
			return errOutside
		default:
			depth--
		}
	}
	return nil
}

// checkName refuses the name of an entry of an untrusted ZIP if it could leave the directory where it is unpacked. It
// accepts unusual but safe names.
func checkName(name string) error {
	switch {
	case name == "" || name == "/":
		return errors.New("an empty name")
	case strings.ContainsRune(name, 0):
		return errors.New("a name with a NUL")
	case name[0] == '/' || name[0] == '\\':
		return errors.New("an absolute name")
	}
	for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '/' || r == '\\' }) {
		if part == ".." {
			return errors.New("a name that goes up")
		}
	}
	return nil
}
