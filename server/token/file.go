package token

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/internal/sharedfile"
	"github.com/stagepost/stagepost/server/identity"
)

// Entry is a line of the file.
type Entry struct {
	Hash    identity.Key // the SHA-256 of the token
	Role    identity.Role
	Owner   string
	Expires time.Time // zero: never
	Comment string
	Groups  identity.Groups // of a depositor or operator
	Work    identity.Work   // of a worker
}

// Bounds in bytes, of the comment of a token and of a comment about a change.
const (
	maxComment = 1000
	maxRemark  = 8000
)

// Line writes an entry as the file has it. It is what Validate accepts.
func (e Entry) Line() string {
	expires := "-"
	if !e.Expires.IsZero() {
		expires = e.Expires.UTC().Format(time.RFC3339)
	}
	role := identity.WriteScope(e.Role, e.Groups, e.Work)
	return strings.TrimRight(fmt.Sprintf("%s %s %s %s %s", e.Hash, role, e.Owner, expires, e.Comment), " ")
}

// Shown returns an entry as lists show it. used has the last uses, by the first 16 digits of the hash.
func (e *Entry) Shown(used map[string]time.Time, now time.Time) api.Token {
	return api.Token{Hash: e.Hash.String(), Role: string(e.Role), Work: string(e.Work), Groups: string(e.Groups),
		Owner: e.Owner, Expires: e.Expires, Expired: !e.valid(now), Comment: e.Comment, Used: used[shortOf(e.Hash)]}
}

// Validate returns what is wrong with an entry.
func (e Entry) Validate() error {
	if _, err := identity.RoleOf(string(e.Role)); err != nil {
		return err
	}
	if err := identity.ValidateScope(e.Role, e.Groups, e.Work); err != nil {
		return err
	}
	if err := identity.ValidateName(e.Owner); err != nil {
		return fmt.Errorf("owner: %w", err)
	}
	switch {
	case len(e.Comment) > maxComment || !utf8.ValidString(e.Comment) ||
		strings.ContainsFunc(e.Comment, unicode.IsControl):
		return fmt.Errorf("the comment must have at most %d bytes and no control characters", maxComment)
	case e.Comment != strings.TrimSpace(e.Comment):
		return errors.New("the comment must not begin or end with blanks")
	}
	return nil
}

// parseFile reads the text of a file. The error names every wrong line.
func parseFile(text []byte) ([]Entry, error) {
	var all []Entry
	var mistakes []error
	seen := map[identity.Key]int{}
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
	role, groups, work, wrong := identity.ReadScope(fields[1])
	e := Entry{Role: role, Groups: groups, Work: work, Owner: fields[2], Comment: strings.TrimSpace(rest)}
	hash, err := hex.DecodeString(fields[0])
	if err != nil || len(hash) != len(e.Hash) {
		if strings.HasPrefix(fields[0], Prefix) {
			return Entry{}, errors.New("there stands a token instead of its hash: it is known to who has " +
				"read the file; revoke it")
		}
		return Entry{}, errors.New("the hash must be 64 hexadecimal digits")
	}
	copy(e.Hash[:], hash)
	if wrong != nil {
		return Entry{}, wrong
	}
	if fields[3] != "-" {
		if e.Expires, err = time.Parse(time.RFC3339, fields[3]); err != nil {
			return Entry{}, fmt.Errorf("the expiry must be a time such as 2006-01-02T15:04:05Z, or -, not %.40q",
				fields[3])
		}
	}
	return e, e.Validate()
}

// Read reads a file, which must be one that only its owner can write to and others cannot read.
func Read(name string) ([]Entry, error) {
	text, err := sharedfile.Read(name)
	if err != nil {
		return nil, err
	}
	all, err := parseFile(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return all, nil
}

// Add appends an entry to a file, which is made if it is missing.
func Add(name string, e Entry) error {
	if err := e.Validate(); err != nil {
		return err
	}
	return edit(name, func(text []byte) ([]byte, error) {
		return sharedfile.AppendLine(text, e.Line()), nil
	})
}

// Remark is the comment that a change of a file leaves in it: what was done to a token, when, and by whom. by may have
// a note after a colon. A server enters it in the audit log.
func (e *Entry) Remark(now time.Time, what, by string) string {
	return fmt.Sprintf("%s %s %s %s %s by %s", now.UTC().Format(time.RFC3339), what, e.Hash.String()[:16], e.Role,
		e.Owner, by)
}

// Revoke takes the line out of a file whose hash begins with a text of at least 8 digits, and leaves a comment with the
// time and by. No such line, or more than one, is an error.
func Revoke(name, prefix string, now time.Time, by string) (Entry, error) {
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
			return withComment(kept.Bytes(), revoked.Remark(now, "revoked", by))
		}
		return nil, fmt.Errorf("%d tokens have hashes that begin with %s: give more digits", found, prefix)
	})
	return revoked, err
}

// Remark appends a comment line to a file: who changed it, when and why.
func Remark(name, text string) error {
	return edit(name, func(file []byte) ([]byte, error) { return withComment(file, text) })
}

func withComment(file []byte, text string) ([]byte, error) {
	if len(text) > maxRemark || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return nil, fmt.Errorf("the note must have at most %d bytes and no control characters", maxRemark)
	}
	return sharedfile.AppendLine(file, "# "+text), nil
}

// edit changes a file that is valid before and after.
func edit(name string, change func([]byte) ([]byte, error)) error {
	return sharedfile.Edit(name, func(text []byte) error {
		_, err := parseFile(text)
		return err
	}, change)
}
