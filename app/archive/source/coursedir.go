package source

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"
)

// ListDir lists the courses of a directory whose entries are courses; nil ids: all of them. id returns the id of the
// course that an entry is; empty: it is none. Ids for which [CourseName] is false are left out. name is that of the
// directory in errors, and none returns the error of an id that the directory does not have.
func ListDir(
	dir fs.FS, name string, ids []string, id func(fs.DirEntry) string, none func(id string) error,
) ([]Course, error) {
	list, err := fs.ReadDir(dir, ".")
	if err != nil {
		return nil, FileError("read "+name, err)
	}
	var out []Course
	for _, e := range list {
		if id := id(e); CourseName(id) && (ids == nil || slices.Contains(ids, id)) {
			out = append(out, Course{ID: id, Name: id})
		}
	}
	for _, id := range ids {
		if !slices.ContainsFunc(out, func(c Course) bool { return c.ID == id }) {
			return nil, &Error{Op: "course " + id, Err: none(id)}
		}
	}
	return out, nil
}

// CourseName reports whether a name of a file can be the id of a course. One that begins with a dot is hidden, and one
// that is not UTF-8 could not be named in a request.
func CourseName(name string) bool {
	return name != "" && !strings.HasPrefix(name, ".") && !strings.ContainsAny(name, `/\`) && utf8.ValidString(name)
}

// CheckSole refuses what is not the only activity of its course, whose id it has. reason is that of
// [Source.Archivable], and other is the reason if it is not such an activity.
func CheckSole(a Activity, reason, other string) error {
	if reason == "" && (a.ID != a.Course || !CourseName(a.ID)) {
		reason = other
	}
	if reason == "" {
		return nil
	}
	return &Error{Op: "activity " + a.ID, Code: "unsupported", Err: errors.New(reason)}
}
