package ocfl

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one finding of a validation.
type Problem struct {
	Code   string `json:"code"`             // E001 to E112 or W001 to W016 of OCFL 1.1
	Object string `json:"object,omitempty"` // directory of the object, relative to the root; "" for the root itself
	Path   string `json:"path,omitempty"`   // relative to Object
	Detail string `json:"detail"`
}

func (p Problem) String() string {
	at := strings.TrimPrefix(p.Object+"/"+p.Path, "/")
	return strings.TrimSpace(p.Code + " " + strings.TrimSuffix(at, "/") + ": " + p.Detail)
}

// Report is the result of a validation.
type Report struct {
	Errors   []Problem `json:"errors"`
	Warnings []Problem `json:"warnings"`
	Objects  int       `json:"objects"`
	Files    int       `json:"files"` // content files that were read in full
	Bytes    int64     `json:"bytes"`
	Dropped  int       `json:"dropped,omitempty"` // problems above maxProblems, only counted
}

// maxDetail bounds the text of one problem, which quotes the broken file.
const maxDetail = 400

func detail(format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	if len(text) > maxDetail {
		text = strings.ToValidUTF8(text[:maxDetail], "") + " ..."
	}
	return text
}

// maxProblems bounds the report on a broken root.
const maxProblems = 100_000

// Valid reports whether no error was found. Warnings do not count.
func (r *Report) Valid() bool { return len(r.Errors) == 0 }

// Codes returns the codes of errors and warnings, sorted, each once.
func (r *Report) Codes() []string {
	var codes []string
	for _, p := range r.Errors {
		codes = append(codes, p.Code)
	}
	for _, p := range r.Warnings {
		codes = append(codes, p.Code)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// Err returns nil for a valid report, otherwise an ErrCorrupt that names the first problem.
func (r *Report) Err() error {
	if r.Valid() {
		return nil
	}
	return fmt.Errorf("%w: %s (%d errors)", ErrCorrupt, r.Errors[0], len(r.Errors))
}

func (r *Report) add(p Problem) {
	switch {
	case len(r.Errors)+len(r.Warnings) >= maxProblems:
		r.Dropped++
	case strings.HasPrefix(p.Code, "W"):
		r.Warnings = append(r.Warnings, p)
	default:
		r.Errors = append(r.Errors, p)
	}
}
