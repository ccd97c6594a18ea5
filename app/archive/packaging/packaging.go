// Package packaging makes the package of an archive job: a BagIt 1.0 bag (RFC 8493), as a tar.gz, tar or ZIP file or as
// single files, and versions of OCFL 1.1 objects.
//
//	gathered files + facts of the job -> plan -> metadata -> tag files -> one pass over the content -> products
//
// The same input gives the same bytes, whatever the umask, time zone, locale or order of the files are. All times come
// from the job. Every gathered file is read once: it is compared with its SHA-256 while it is copied to all products.
//
//	NAME/
//	  bagit.txt, bag-info.txt, README.txt
//	  manifest-sha256.txt, manifest-sha512.txt, tagmanifest-sha256.txt, tagmanifest-sha512.txt
//	  data/
//	    FOLDER OF AN ACTIVITY/...   with one activity its files are in data/ itself
//	    metadata/job.json, course.json, activity.json, people.csv, files.csv, premis.xml, premis.json
//
// An OCFL version has the content of data/, and README.txt.
package packaging

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stagepost/stagepost/app/archive/source"
)

// Role is what a gathered file is.
type Role string

// The roles.
const (
	Payload  Role = "payload"
	Backup   Role = "backup"
	Metadata Role = "metadata"
)

// File is a gathered file: a line of the job's ledger.
type File struct {
	Path     string        `json:"path"`               // in the gathered directory, with slashes
	Name     string        `json:"name,omitempty"`     // below the folder of its activity; empty: Path
	Original string        `json:"original,omitempty"` // its name in the source, if that is another one
	Size     int64         `json:"size"`
	SHA256   string        `json:"sha256"` // hexadecimal, lower case
	SHA512   string        `json:"sha512"`
	Origin   source.Origin `json:"origin,omitzero"`
	Activity string        `json:"activity,omitempty"` // id; empty: of the course
	Role     Role          `json:"role"`
}

// Activity is an archived activity and how it was archived.
type Activity struct {
	source.Activity
	Fingerprint string   `json:"fingerprint,omitempty"` // SHA-256, hexadecimal
	Drift       bool     `json:"drift,omitempty"`       // it changed while it was archived
	Warnings    []string `json:"warnings,omitempty"`    // what was not archived, and why
}

// Excluded is an activity that was left out.
type Excluded struct {
	source.Activity
	Reason string `json:"reason"`
}

// Job is what is recorded of the job that makes the archive.
type Job struct {
	ID           string    `json:"id"`
	Identifier   string    `json:"identifier"` // a URN, such as urn:uuid:...
	Title        string    `json:"title,omitempty"`
	Owner        string    `json:"owner,omitempty"`
	OwnerURI     string    `json:"owner_uri,omitempty"` // such as mailto:owner@example.org
	Trigger      string    `json:"trigger,omitempty"`   // such as manual, schedule
	Organization string    `json:"organization,omitempty"`
	Requested    time.Time `json:"requested,omitzero"`
	Started      time.Time `json:"started,omitzero"`
	Packaged     time.Time `json:"packaged"`              // when packaging began first; the same in each attempt
	RetainUntil  time.Time `json:"retain_until,omitzero"` // zero: unlimited
	Settings     any       `json:"settings,omitempty"`    // secrets are replaced by ***
	BagProfile   string    `json:"bag_profile,omitempty"` // URL of a BagIt profile
}

// Location is a storage location that keeps a copy.
type Location struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`              // such as directory, s3, sftp
	Address string `json:"address,omitempty"` // without secrets
	Tier    string `json:"tier,omitempty"`
}

// Software is the program that makes the package.
type Software struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Go      string `json:"go,omitempty"` // version of Go: compressed bytes may depend on it
	URL     string `json:"url,omitempty"`
}

// Event is something that happened before packaging, for the PREMIS document.
type Event struct {
	Type     string    `json:"type"` // of the PREMIS vocabulary of event types, such as capture or validation
	Time     time.Time `json:"time"`
	Detail   string    `json:"detail,omitempty"`
	Outcome  string    `json:"outcome,omitempty"` // such as success, warning
	Note     string    `json:"note,omitempty"`
	Activity string    `json:"activity,omitempty"` // id; empty: the event is about the whole package
}

// Facts are what the metadata of a package state.
type Facts struct {
	Job        Job
	Source     source.Facts
	Course     source.Course
	Activities []Activity
	People     []source.Person
	Locations  []Location
	Software   Software
	Events     []Event
	Secrets    []string `json:"-"` // texts that must not occur in any metadata, such as tokens

	Excluded []Excluded // activities of the course that were left out
	Warnings []string   // about no single activity, such as what a backup lacks
}

// Container is what a bag is put into.
type Container string

// The containers.
const (
	TarGzip Container = "tar.gz"
	Tar     Container = "tar"
	Zip     Container = "zip" // content is not compressed
	// Directory is every file of the bag for itself. Gathered files are not copied.
	Directory Container = "none"
)

// Input is what a package is made of.
type Input struct {
	Name       string // of the package: a file name without extension
	Facts      Facts
	Files      []File   // in any order
	Gathered   *os.Root // has the files
	Into       *os.Root // directory of this package alone
	Containers []Container
	// Progress is called after each file with the bytes that are done, and those of all files; nil: it is not.
	Progress func(done, total int64)
}

// Errors that another attempt does not repair.
var (
	ErrInput   = errors.New("invalid input of a package")
	ErrChanged = errors.New("a gathered file has changed")
)

// check returns an error of kind [ErrInput] for an input that no package can be made of.
func (in *Input) check() error {
	if err := checkName(in.Name); err != nil {
		return err
	}
	if len(in.Containers) == 0 {
		return fmt.Errorf("%w: no container is given", ErrInput)
	}
	for i, c := range in.Containers {
		if !slices.Contains([]Container{TarGzip, Tar, Zip, Directory}, c) || slices.Contains(in.Containers[:i], c) {
			return fmt.Errorf("%w: the container %q is unknown or given twice", ErrInput, c)
		}
	}
	return checkFacts(&in.Facts, in.Files)
}

// checkName accepts names that every file system and storage location can keep, with the extensions of the products.
func checkName(name string) error {
	strange := func(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune("/\\%~\ufffd", r) }
	if name == "" || len(name) > 170 || strings.ContainsFunc(name, strange) || name[0] == '.' ||
		strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") || !utf8.ValidString(name) {
		return fmt.Errorf("%w: the name %.200q", ErrInput, name)
	}
	return nil
}

func checkFacts(f *Facts, files []File) error {
	switch {
	case f.Job.ID == "" || f.Job.Identifier == "":
		return fmt.Errorf("%w: the job has no id or no identifier", ErrInput)
	case f.Job.Packaged.IsZero():
		return fmt.Errorf("%w: the job has no time of packaging", ErrInput)
	case f.Software.Name == "":
		return fmt.Errorf("%w: the software has no name", ErrInput)
	}
	known, seen := map[string]bool{"": true}, make(map[string]bool, len(files))
	for _, a := range f.Activities {
		if known[a.ID] {
			return fmt.Errorf("%w: the activity %q is given twice, or has no id", ErrInput, a.ID)
		}
		known[a.ID] = true
	}
	for i := range files {
		if err := files[i].check(); err != nil {
			return err
		}
		if seen[files[i].Path] {
			return fmt.Errorf("%w: the file %q is given twice", ErrInput, files[i].Path)
		}
		if !known[files[i].Activity] {
			return fmt.Errorf("%w: %q is of the unknown activity %q", ErrInput, files[i].Path, files[i].Activity)
		}
		seen[files[i].Path] = true
	}
	return nil
}

func (f *File) check() error {
	switch {
	case !fs.ValidPath(f.Path) || f.Path == ".":
		return fmt.Errorf("%w: the path %.200q", ErrInput, f.Path)
	case f.Name != "" && (!fs.ValidPath(f.Name) || f.Name == "."):
		return fmt.Errorf("%w: the name %.200q", ErrInput, f.Name)
	case f.Size < 0 || !isHex(f.SHA256, 32) || !isHex(f.SHA512, 64):
		return fmt.Errorf("%w: size or digests of %q", ErrInput, f.Path)
	case !slices.Contains([]Role{Payload, Backup, Metadata}, f.Role):
		return fmt.Errorf("%w: the role %q of %q", ErrInput, f.Role, f.Path)
	}
	return nil
}

// isHex reports whether a text is a digest of n bytes in lower case.
func isHex(text string, n int) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == n && hex.EncodeToString(raw) == text
}
