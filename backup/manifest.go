package backup

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Format is the form of sets that this program writes. It reads this one and earlier ones.
const Format = 1

// Manifest says what a set is.
type Manifest struct {
	Format       int            `json:"format"`
	ID           string         `json:"id"`           // of the set
	Installation string         `json:"installation"` // of the data directory
	Version      string         `json:"version"`      // of the program
	Schemas      map[string]int `json:"schemas"`      // of the databases, by file
	Data         string         `json:"data"`         // the data directory that it was made of
	Moment       time.Time      `json:"moment"`       // whose state it has
	Frozen       string         `json:"frozen"`       // how long commits waited for it
	Made         time.Time      `json:"made"`         // when it was complete
	Without      []string       `json:"without"`      // parts that were left out
	// entries of the data directory that are not Stagepost's: they were left out
	Unknown []string   `json:"unknown"`
	Outside []Location `json:"outside"` // what it refers to and does not have
	Files   int64      `json:"files"`   // in the list
	Bytes   int64      `json:"bytes"`   // of them
	List    string     `json:"list"`    // SHA-256 of the list
}

// File is one line of the list: a file, a directory or a symbolic link.
type File struct {
	Path   string      `json:"path"` // in the set, with slashes
	Mode   fs.FileMode `json:"mode"`
	Time   time.Time   `json:"time"`
	Size   int64       `json:"size"`
	SHA256 string      `json:"sha256,omitempty"` // of a file
	To     string      `json:"to,omitempty"`     // of a link
	From   string      `json:"from,omitempty"`   // where it lay, outside the data directory
}

// hexOf returns a digest as text.
func hexOf(sum []byte) string { return hex.EncodeToString(sum) }

// incomplete is the refusal of a directory that is no whole set.
func incomplete(dir, what string) error {
	return job.Errorf(job.Invalid, "restore", "",
		"%s is not a complete backup: %s; choose another one (each directory with %s is one)", dir, what, manifestName)
}

// ReadManifest reads the manifest of a set and checks it against its digest. Kinds of error: NotFound (no such
// directory), Invalid (no set, or a damaged one, or one that a newer program made).
func ReadManifest(dir string) (*Manifest, error) {
	text, err := os.ReadFile(filepath.Join(dir, manifestName))
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, incomplete(dir, "it is not a directory")
	}
	if errors.Is(err, fs.ErrNotExist) {
		if _, gone := os.Stat(dir); gone != nil {
			return nil, job.Errorf(job.NotFound, "restore", "", "backup not found: %s", dir)
		}
		return nil, incomplete(dir, "it has no "+manifestName)
	}
	if err != nil {
		return nil, &job.Error{Op: "restore", Kind: job.Unavailable, Err: err}
	}
	digest, err := os.ReadFile(filepath.Join(dir, digestName))
	if err != nil {
		return nil, incomplete(dir, "it has no "+digestName)
	}
	sum := sha256.Sum256(text)
	if want, _, _ := strings.Cut(string(digest), " "); want != hexOf(sum[:]) {
		return nil, job.Errorf(job.Invalid, "restore", "",
			"%s was changed after the backup: its digest is not the one in %s; choose another backup",
			filepath.Join(dir, manifestName), digestName)
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, incomplete(dir, manifestName+" cannot be read: "+err.Error())
	}
	if m.Format > Format {
		return nil, job.Errorf(job.Invalid, "restore", "",
			"%s was made by stagepost %s and has format %d; this program reads format %d: restore it with "+
				"that version or a newer one",
			dir, m.Version, m.Format, Format)
	}
	return &m, nil
}

// list writes the list of files.
type list struct {
	file  *os.File
	text  *bufio.Writer
	sum   *hashed
	files int64
	bytes int64
}

func newList(dir string) (*list, error) {
	f, err := os.OpenFile(filepath.Join(dir, listName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	h := newHashed(f)
	return &list{file: f, text: bufio.NewWriter(h), sum: h}, nil
}

func (l *list) add(f File) error {
	line, err := json.Marshal(f)
	if err != nil {
		return err
	}
	l.files++
	l.bytes += f.Size
	_, err = l.text.Write(append(line, '\n'))
	return err
}

// finish syncs the list and returns its digest.
func (l *list) finish() (string, error) {
	err := errors.Join(l.text.Flush(), l.file.Sync(), l.file.Close())
	return l.sum.hex(), err
}

// eachFile reads the list of a set line by line.
func eachFile(dir string, m *Manifest, do func(*File) error) error {
	f, err := os.Open(filepath.Join(dir, listName))
	if err != nil {
		return incomplete(dir, "it has no "+listName)
	}
	defer f.Close()
	in := bufio.NewReader(f)
	for n := int64(1); ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		var one File
		if err != nil || json.Unmarshal(line, &one) != nil || !filepath.IsLocal(filepath.FromSlash(one.Path)) {
			return incomplete(dir, fmt.Sprintf("line %d of %s cannot be read", n, listName))
		}
		if err := do(&one); err != nil {
			return err
		}
	}
}

// write writes the manifest and its digest, the last files of a set.
func (m *Manifest) write(dir string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	sum := sha256.Sum256(text)
	if err := putFile(filepath.Join(dir, digestName), []byte(hexOf(sum[:])+"  "+manifestName+"\n")); err != nil {
		return err
	}
	return putFile(filepath.Join(dir, manifestName), text)
}
