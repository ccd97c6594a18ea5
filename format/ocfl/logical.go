package ocfl

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// byDigest is the directory for content whose logical path is not portable as a file name.
const byDigest = "_by-digest"

// pathFault is the reason why a text is not a path of elements joined by slashes. Logical and content paths have the
// same rules (OCFL 1.1 sections 3.5.2 and 3.5.3.1).
type pathFault int

const (
	pathFine pathFault = iota
	pathEdge           // begins or ends with a slash
	pathDots           // an element is ., .. or empty
	pathLong           // longer than maxPath
)

// maxPath bounds the work on an untrusted inventory; no file system accepts a path of this length.
const maxPath = 32 << 10

// checkPath returns the first fault of a path.
func checkPath(p string) pathFault {
	if all := pathFaults(p); len(all) > 0 {
		return all[0]
	}
	return pathFine
}

// pathFaults returns all faults of a path. A slash at an end is no empty element besides.
func pathFaults(p string) (all []pathFault) {
	if len(p) > maxPath {
		return []pathFault{pathLong}
	}
	inner := strings.TrimSuffix(strings.TrimPrefix(p, "/"), "/")
	if inner != p {
		all = append(all, pathEdge)
	}
	if p == "/" {
		return all
	}
	for e := range strings.SplitSeq(inner, "/") {
		if e == "" || e == "." || e == ".." {
			return append(all, pathDots)
		}
	}
	return all
}

// pathSet finds paths that occur twice or that are a parent of another.
type pathSet struct {
	files map[string]bool
	dirs  map[string]bool
}

func newPathSet(size int) *pathSet {
	return &pathSet{files: make(map[string]bool, size), dirs: map[string]bool{}}
}

// add returns the conflict of p with an earlier path, or "".
func (s *pathSet) add(p string) string {
	if s.files[p] {
		return fmt.Sprintf("%q occurs twice", p)
	}
	if s.dirs[p] {
		return fmt.Sprintf("%q is a file and also the directory of another", p)
	}
	for d := path.Dir(p); d != "." && d != "/"; d = path.Dir(d) {
		if s.files[d] {
			return fmt.Sprintf("%q is a file and also the directory of %q", d, p)
		}
		if s.dirs[d] {
			break
		}
		s.dirs[d] = true
	}
	s.files[p] = true
	return ""
}

// validLogical accepts the paths that this package stores: those of OCFL in UTF-8 and without NUL.
func validLogical(p string) error {
	switch {
	case len(p) > maxPath:
		return fmt.Errorf("%w logical path of %d bytes: at most %d", ErrInvalid, len(p), maxPath)
	case checkPath(p) != pathFine:
		return fmt.Errorf("%w logical path %q: no elements that are empty, \".\" or \"..\", no slash at either end",
			ErrInvalid, p)
	case !utf8.ValidString(p):
		return fmt.Errorf("%w logical path %q: not UTF-8", ErrInvalid, p)
	case strings.ContainsRune(p, 0):
		return fmt.Errorf("%w logical path %q: has a NUL", ErrInvalid, p)
	}
	return nil
}

// contentName returns the path of a file below the content directory: its logical path if every system supports that
// name, otherwise a name made of the digest.
func contentName(logical, digest string) string {
	if portable(logical) {
		return logical
	}
	return byDigest + "/" + digest
}

func portable(logical string) bool {
	if len(logical) > 1024 || logical == byDigest || strings.HasPrefix(logical, byDigest+"/") {
		return false
	}
	if strings.ContainsAny(logical, "\\<>:\"|?*") || strings.ContainsFunc(logical, unicode.IsControl) {
		return false
	}
	for e := range strings.SplitSeq(logical, "/") {
		if len(e) > 240 || strings.HasSuffix(e, ".") || strings.HasSuffix(e, " ") {
			return false
		}
	}
	return true
}
