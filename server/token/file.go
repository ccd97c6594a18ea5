package token

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stagepost/stagepost/internal/durable"
)

// Role is what a token may be used for.
type Role string

// The roles. A user sees its own jobs, an operator all; a worker takes jobs and reports on them; an admin may do
// everything.
const (
	User     Role = "user"
	Operator Role = "operator"
	Worker   Role = "worker"
	Admin    Role = "admin"
)

// Roles lists the roles.
func Roles() []Role { return []Role{User, Operator, Worker, Admin} }

// Hash is the SHA-256 of a token.
type Hash [32]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Entry is a line of the file.
type Entry struct {
	Hash    Hash
	Role    Role
	Owner   string
	Expires time.Time // zero: never
	Comment string
	Work    Scope // of a worker
}

// Bounds of the file.
const (
	maxFile    = 16 << 20 // bytes
	maxOwner   = 200      // bytes
	maxComment = 1000     // bytes
)

// Line writes an entry as the file has it. It is what Validate accepts.
func (e Entry) Line() string {
	expires := "-"
	if !e.Expires.IsZero() {
		expires = e.Expires.UTC().Format(time.RFC3339)
	}
	role := string(e.Role)
	if e.Work != "" {
		role += ":" + string(e.Work)
	}
	return strings.TrimRight(fmt.Sprintf("%s %s %s %s %s", e.Hash, role, e.Owner, expires, e.Comment), " ")
}

// Validate returns what is wrong with an entry.
func (e Entry) Validate() error {
	switch {
	case !slices.Contains(Roles(), e.Role):
		return fmt.Errorf("the role must be user, operator, worker or admin, not %.40q", e.Role)
	case e.Work != "" && e.Role != Worker:
		return fmt.Errorf("only a worker's token names kinds and states, not one of the role %s", e.Role)
	case e.Work.validate() != nil:
		return e.Work.validate()
	case e.Owner == "" || e.Owner == "-" || len(e.Owner) > maxOwner || !utf8.ValidString(e.Owner) ||
		strings.ContainsFunc(e.Owner, notInName):
		return fmt.Errorf("the owner must have 1 to %d printable bytes without blanks, not %.40q", maxOwner, e.Owner)
	case len(e.Comment) > maxComment || !utf8.ValidString(e.Comment) ||
		strings.ContainsFunc(e.Comment, unicode.IsControl):
		return fmt.Errorf("the comment must have at most %d bytes and no control characters", maxComment)
	case e.Comment != strings.TrimSpace(e.Comment):
		return errors.New("the comment must not begin or end with blanks")
	}
	return nil
}

func notInName(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }

// ParseFile reads the text of a file. The error names every wrong line.
func ParseFile(text []byte) ([]Entry, error) {
	var all []Entry
	var mistakes []error
	seen := map[Hash]int{}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if trimmed := strings.TrimSpace(line); trimmed == "" || trimmed[0] == '#' {
			continue
		}
		e, err := parseLine(line)
		if first := seen[e.Hash]; err == nil && first != 0 {
			err = fmt.Errorf("the hash stands in line %d already", first)
		}
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("line %d: %w", n, err))
			continue
		}
		seen[e.Hash] = n
		all = append(all, e)
	}
	return all, errors.Join(mistakes...)
}

func parseLine(line string) (Entry, error) {
	fields := make([]string, 4)
	rest := line
	for i := range fields {
		rest = strings.TrimLeft(rest, " \t")
		end := strings.IndexAny(rest, " \t")
		if end < 0 {
			end = len(rest)
		}
		fields[i], rest = rest[:end], rest[end:]
	}
	if fields[3] == "" {
		return Entry{}, errors.New("it needs hash, role, owner, and an expiry or -")
	}
	role, work, scoped := strings.Cut(fields[1], ":")
	if scoped && work == "" {
		return Entry{}, errors.New("kinds and states must follow the colon, such as worker:KIND/STATE")
	}
	e := Entry{Role: Role(role), Work: Scope(work), Owner: fields[2], Comment: strings.TrimSpace(rest)}
	hash, err := hex.DecodeString(fields[0])
	if err != nil || len(hash) != len(e.Hash) {
		if strings.HasPrefix(fields[0], Prefix) {
			return Entry{}, errors.New("there stands a token instead of its hash: it is known to who has " +
				"read the file; revoke it")
		}
		return Entry{}, errors.New("the hash must be 64 hexadecimal digits")
	}
	copy(e.Hash[:], hash)
	if fields[3] != "-" {
		if e.Expires, err = time.Parse(time.RFC3339, fields[3]); err != nil {
			return Entry{}, fmt.Errorf("the expiry must be a time such as 2006-01-02T15:04:05Z, or -, not %.40q",
				fields[3])
		}
	}
	return e, e.Validate()
}

// Read reads a file, which must be one that only its owner can write to and strangers cannot read.
func Read(name string) ([]Entry, error) {
	all, _, err := readFile(name)
	return all, err
}

func readFile(name string) ([]Entry, fs.FileInfo, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	stat, err := f.Stat() // of what is read, not of the name
	if err != nil {
		return nil, nil, err
	}
	if !stat.Mode().IsRegular() {
		return nil, stat, fmt.Errorf("%s is not a regular file", name)
	}
	if stat.Mode().Perm()&0o027 != 0 {
		return nil, stat, fmt.Errorf("%s has the mode %#o: its group must not write to it and others must "+
			"not read it (chmod 600)", name, stat.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, stat, err
	}
	if len(text) > maxFile {
		return nil, stat, fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	all, err := ParseFile(text)
	if err != nil {
		return nil, stat, fmt.Errorf("%s: %w", name, err)
	}
	return all, stat, nil
}

// Add appends an entry to a file, which is made if it is missing.
func Add(name string, e Entry) error {
	if err := e.Validate(); err != nil {
		return err
	}
	return edit(name, func(text []byte) ([]byte, error) {
		if len(text) > 0 && text[len(text)-1] != '\n' {
			text = append(text, '\n')
		}
		return append(text, e.Line()+"\n"...), nil
	})
}

// Revoke takes the line out of a file whose hash begins with a text of at least 8 digits. No such line, or more than
// one, is an error.
func Revoke(name, prefix string) (Entry, error) {
	prefix = strings.ToLower(prefix)
	if len(prefix) < 8 || strings.Trim(prefix, "0123456789abcdef") != "" {
		return Entry{}, fmt.Errorf("name the token by 8 or more of the first digits of its hash, not by %.40q", prefix)
	}
	var revoked Entry
	err := edit(name, func(text []byte) ([]byte, error) {
		var kept bytes.Buffer
		found := 0
		for line := range strings.Lines(string(text)) {
			if e, err := parseLine(strings.TrimRight(line, "\r\n")); err == nil &&
				strings.HasPrefix(e.Hash.String(), prefix) {
				revoked = e
				found++
				continue
			}
			kept.WriteString(line)
		}
		switch found {
		case 0:
			return nil, fmt.Errorf("%w whose hash begins with %s", ErrUnknown, prefix)
		case 1:
			return kept.Bytes(), nil
		}
		return nil, fmt.Errorf("%d tokens have hashes that begin with %s: give more digits", found, prefix)
	})
	return revoked, err
}

// Remark appends a comment line to a file: who changed it, when and why.
func Remark(name, text string) error {
	if len(text) > maxComment || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("the note must have at most %d bytes and no control characters", maxComment)
	}
	return edit(name, func(file []byte) ([]byte, error) {
		if len(file) > 0 && file[len(file)-1] != '\n' {
			file = append(file, '\n')
		}
		return append(file, "# "+text+"\n"...), nil
	})
}

// edit changes a file that is sound before and after, whole or not at all. Two that edit at once wait for each other.
func edit(name string, change func([]byte) ([]byte, error)) (err error) {
	unlock, err := lock(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	var text []byte
	if _, err := Read(name); err == nil {
		if text, err = os.ReadFile(name); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if text, err = change(text); err != nil {
		return err
	}
	if _, err := ParseFile(text); err != nil {
		return err
	}
	return rewrite(name, text)
}

// rewrite replaces a file whole or not at all, on the disk when it returns: a revoked token does not come back with a
// power cut. It keeps its owner, group and mode: a service can still read it when another user, such as root,
// edits it. A new file has mode 0600; a file that root makes belongs to the owner of its directory.
func rewrite(name string, text []byte) error {
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer root.Close()
	base := filepath.Base(name)
	return durable.File{Root: root, Name: base, Temporary: "." + base + "." +
		rand.Text()}.Write(func(f *os.File) error {
		_, err := f.Write(text)
		return errors.Join(err, keepOwner(f, name))
	})
}

// lock keeps others from editing the files of a directory until the function it gives is called. It goes with its
// process.
func lock(dir string) (unlock func() error, err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := flock(d); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d.Close, nil
}
