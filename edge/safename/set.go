package safename

import (
	"crypto/sha256"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Set holds the names of one tree (a manifest, an archive, a form) and finds those that cannot coexist on some file
// system or in some store. The zero Set is empty and ready, for the rules Portable. It keeps a digest of each name,
// not the name: about 60 bytes for each of a million rows. It is not safe for concurrent use.
type Set struct {
	Rules Rules // the rules for a single name. With AsGiven, names collide only if they are identical
	seen  map[[16]byte]entry
}

type entry struct {
	exact [8]byte // digest of the spelling
	dir   bool
}

// AddFile cleans name and adds it as a file, with the directories above it. The error is an *Error: a rule of Clean,
// Duplicate for an existing file, Collision for another spelling of it or of a directory above it, Conflict if one
// name would be a file and a directory. After an error the directories above may have been added, the file not.
func (s *Set) AddFile(name string) (string, error) { return s.add(name, false) }

// AddDir does the same for a directory; a directory may be added again.
func (s *Set) AddDir(name string) (string, error) { return s.add(name, true) }

// Len is the number of files and directories, including implied directories.
func (s *Set) Len() int { return len(s.seen) }

func (s *Set) add(name string, dir bool) (string, error) {
	clean, err := s.Rules.Clean(name)
	if err != nil {
		return "", err
	}
	if s.seen == nil {
		s.seen = make(map[[16]byte]entry)
	}
	if rule := s.walk(clean, dir, s.put); rule != "" {
		return "", &Error{name, rule}
	}
	return clean, nil
}

// Beside returns why a file of another tree could not coexist with those of the set, as an *Error; nil if it could.
// The set does not change, and the name need not satisfy its rules: only the common part of the two trees is
// compared.
func (s *Set) Beside(name string) error {
	if rule := s.walk(name, false, s.meets); rule != "" {
		return &Error{name, rule}
	}
	return nil
}

// walk calls do for the directories above a name, from the top, and for the name itself, until a rule refuses one.
func (s *Set) walk(clean string, dir bool, do func(clean, folded string, dir bool) Rule) Rule {
	folded := clean
	if s.Rules == Portable {
		folded = fold(clean)
	}
	at, fat := 0, 0
	for {
		// The folded path has as many components as the clean one, so both are walked together.
		up := strings.IndexByte(clean[at:], '/')
		if up < 0 {
			break
		}
		at += up
		fat += strings.IndexByte(folded[fat:], '/')
		if rule := do(clean[:at], folded[:fat], true); rule != "" {
			return rule
		}
		at, fat = at+1, fat+1
	}
	return do(clean, folded, dir)
}

func (s *Set) put(clean, folded string, dir bool) Rule {
	key := [16]byte(digest(folded))
	if _, ok := s.seen[key]; !ok {
		s.seen[key] = entry{[8]byte(digest(clean)[:8]), dir}
		return ""
	}
	return s.meets(clean, folded, dir)
}

func (s *Set) meets(clean, folded string, dir bool) Rule {
	key, exact := [16]byte(digest(folded)), [8]byte(digest(clean)[:8])
	old, ok := s.seen[key]
	switch {
	case !ok:
		return ""
	case old.dir != dir:
		return Conflict
	case old.exact != exact:
		return Collision
	case !dir:
		return Duplicate
	}
	return ""
}

func digest(s string) []byte {
	sum := sha256.Sum256([]byte(s))
	return sum[:16]
}

// fold returns the form that names which collide have in common: compatibility form, no case, no trailing dots and
// spaces. Slashes from the compatibility form ("℀") do not make new components.
func fold(clean string) string {
	parts := strings.Split(clean, "/")
	for i, part := range parts {
		part = norm.NFKC.String(cases.Fold().String(norm.NFKC.String(part)))
		parts[i] = strings.ReplaceAll(strings.TrimRight(part, ". "), "/", "\x00")
	}
	return strings.Join(parts, "/")
}
