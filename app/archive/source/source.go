// Package source reads what is archived: the activities of a course of a Moodle, a tree of files, or a list of URLs.
//
//	Activities -> Fingerprint -> Items -> Fetch of each item -> Fingerprint again
//
// A source is only read. It gives files with their origin to an [Out]; the caller makes a package of them. Each call
// can be repeated: the keys of items and the names of files are the same as long as the activity is.
package source

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/stagepost/stagepost/api"
)

// Course groups activities.
type Course struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	ShortName string `json:"short_name,omitempty"`
	Number    string `json:"number,omitempty"` // given by people, such as the number in a campus system
	Category  string `json:"category,omitempty"`
	Context   string `json:"context,omitempty"` // id by which files are found
	URL       string `json:"url,omitempty"`
	// CategoryID is for [CoursesIn]; it is not recorded.
	CategoryID string    `json:"-"`
	Start      time.Time `json:"start,omitzero"`
	End        time.Time `json:"end,omitzero"`
}

// Activity is what is archived as one: a quiz, an assignment, a directory.
type Activity struct {
	Course   string    `json:"course"` // id of its course
	ID       string    `json:"id"`     // unique in the source
	Module   string    `json:"module"` // its kind, such as quiz
	Instance string    `json:"instance,omitempty"`
	Context  string    `json:"context,omitempty"`
	Name     string    `json:"name"`
	URL      string    `json:"url,omitempty"`
	Section  string    `json:"section,omitempty"`
	Hidden   bool      `json:"hidden,omitempty"`
	Modified time.Time `json:"modified,omitzero"` // zero: unknown
}

// Person is a person whose data an activity contains.
type Person struct {
	ID       string   `json:"id"`
	Username string   `json:"username,omitempty"`
	Number   string   `json:"number,omitempty"` // such as the matriculation number
	First    string   `json:"first,omitempty"`
	Last     string   `json:"last,omitempty"`
	Name     string   `json:"name"`
	Email    string   `json:"email,omitempty"`
	Roles    []string `json:"roles,omitempty"`
	Groups   []string `json:"groups,omitempty"`
	GroupIDs []string `json:"group_ids,omitempty"` // of Groups, in their order
}

// Item is a part of an activity that is fetched as one: an attempt, a submission, a file.
type Item struct {
	Key    string `json:"key"`              // unique within the activity, and always the same
	Title  string `json:"title,omitempty"`  // for people
	Person string `json:"person,omitempty"` // id of the person whose it is
	Data   []byte `json:"data,omitempty"`   // what Fetch needs; opaque to the caller
}

// Decode reads the data of an item, which is JSON.
func (i *Item) Decode(to any) error {
	if err := json.Unmarshal(i.Data, to); err != nil {
		return &Error{Op: "item " + i.Key, Err: err}
	}
	return nil
}

// Plan lists what is fetched of an activity.
type Plan struct {
	Items    []Item
	People   []Person // whose data the items contain
	Warnings []string // what cannot be fetched, and why; in words for the depositor
}

// Origin is what is kept of a file besides its bytes.
type Origin struct {
	Name     string    `json:"name,omitempty"` // in the source, with slashes; empty: that of the file
	Raw      []byte    `json:"raw,omitempty"`  // the bytes of the name, if it is not UTF-8: Name shows it then
	URL      string    `json:"url,omitempty"`  // without secrets
	SHA1     string    `json:"sha1,omitempty"`
	Type     string    `json:"type,omitempty"` // media type
	Modified time.Time `json:"modified,omitzero"`
	Person   string    `json:"person,omitempty"`
}

// Out receives the files of an item. fill writes the content; if it fails, there is no file. Names are relative paths
// with slashes. A second Put under a name replaces the file. The origin is read when fill has returned, so fill can
// complete it.
type Out interface {
	Put(ctx context.Context, name string, o *Origin, fill func(io.Writer) error) error
	Progress(done, total int64, unit string)
}

// Settings choose what is fetched of an activity, and how it is named.
type Settings = api.ArchiveContent

// Source is one system that is archived.
type Source interface {
	// Check reports what keeps the source from being archived, as an error that names what a person has to change.
	Check(ctx context.Context) (Facts, error)
	// Courses lists courses; nil ids: all that may be archived.
	Courses(ctx context.Context, ids []string) ([]Course, error)
	Activities(ctx context.Context, course string) ([]Activity, error)
	// Describe writes what is known of a course besides its activities: people and grades. It gives the people.
	Describe(ctx context.Context, course string, s Settings, out Out) ([]Person, error)
	// Archivable reports why an activity cannot be archived; an empty reason: it can be.
	Archivable(a Activity) (reason string)
	// Fingerprint changes whenever the content of an activity does (64 hexadecimal digits).
	Fingerprint(ctx context.Context, a Activity) (string, error)
	Plan(ctx context.Context, a Activity, s Settings) (*Plan, error)
	Fetch(ctx context.Context, a Activity, item Item, s Settings, out Out) error
}

// Facts identify a source.
type Facts struct {
	Kind     string   `json:"kind"` // moodle, directory, web
	Name     string   `json:"name"`
	URL      string   `json:"url,omitempty"`
	Version  string   `json:"version,omitempty"`
	Warnings []string `json:"warnings,omitempty"` // what cannot be archived, and which right or function is missing
}

// Error is a failed request to a source.
type Error struct {
	Op        string // what was asked for, without secrets
	Code      string // of the source, such as invalidtoken; may be empty
	Err       error
	Transient bool          // a later attempt can succeed
	After     time.Duration // the source asks to wait so long; zero: it does not
}

// Error names request, code and cause.
func (e *Error) Error() string {
	if e.Code == "" {
		return e.Op + ": " + e.Err.Error()
	}
	return fmt.Sprintf("%s: %s (%s)", e.Op, e.Err, e.Code)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Temporary reports whether a later attempt can succeed.
func (e *Error) Temporary() bool { return e.Transient }

// FileError classifies an error of the file system of this machine. One that is an *[Error] already stays as it is.
func FileError(op string, err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) {
		return err
	}
	final := errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrInvalid)
	return &Error{Op: op, Err: err, Transient: !final}
}

// ErrContent is a download whose bytes are not those that the source announced.
var ErrContent = errors.New("the content is not what the source announced")

// SafeName makes a name of one path element: characters that a file system or BagIt treats specially become an
// underscore. It has at most 120 bytes, no dot or blank at its ends, and is never empty.
func SafeName(name string) string {
	clean := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || strings.ContainsRune("/\\:*?\"<>|%~\ufffd", r) {
			return '_'
		}
		return r
	}, norm.NFC.String(strings.ToValidUTF8(name, "_"))) // NFC does not change what follows an invalid byte
	clean = strings.TrimLeft(clean, ". ")
	for len(clean) > 120 {
		_, size := utf8.DecodeLastRuneInString(clean)
		clean = clean[:len(clean)-size]
	}
	return cmp.Or(strings.TrimRight(clean, ". "), "_")
}
