package ocfl

import (
	"io/fs"
	"slices"
	"strings"
)

// declarations are the files by which a directory declares itself: storage roots and objects have their own.
type declarations struct {
	prefix string // of their names
	mark   string // in the name of a declaration that does not begin with 0=

	form, version, content string // codes of what is wrong with a name and with a content
}

var (
	rootDeclarations   = declarations{rootDeclaration, "=ocfl_", "E078", "E079", "E080"}
	objectDeclarations = declarations{objectDeclaration, "=ocfl_object", "E005", "E006", "E007"}
)

// names lists the declarations among entries.
func (d *declarations) names(entries []fs.DirEntry) (names []string) {
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "0=") || strings.Contains(e.Name(), d.mark) {
			names = append(names, e.Name())
		}
	}
	return names
}

// check checks declarations, and returns the newest known version of OCFL that they name; empty: they name none.
func (d *declarations) check(
	names []string, read func(name string) ([]byte, error), found func(code, name, format string, args ...any),
) (spec string) {
	for _, name := range names {
		named, ok := strings.CutPrefix(name, d.prefix)
		switch {
		case !strings.HasPrefix(name, "0="):
			found(d.form, name, "declaration does not begin with 0=")
		case !ok || !slices.Contains(knownSpecs, named):
			found(d.version, name, "declaration names no known version of OCFL")
		default:
			spec = max(spec, named)
			want := strings.TrimPrefix(name, "0=")
			if data, err := read(name); err != nil || string(data) != want+"\n" {
				found(d.content, name, "content is not %s and a newline", want)
			}
		}
	}
	return spec
}
