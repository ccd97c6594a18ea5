// Package account has the local users of small installations: a file with their roles and hashed passwords.
//
// The file has a line for each user, fields with blanks or tabs between them:
//
//	name  role[:scope]  password  shown name up to the end of the line
//
// The password is a PHC string of argon2id, or - for none; a ! before it disables the user. The scope of a depositor or
// operator lists groups (collections), as in package token. Empty lines and lines that begin with # are ignored. A user
// who can write to the file can admit others, so only its owner may write to it.
package account

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/internal/sharedfile"
	"github.com/stagepost/stagepost/server/identity"
)

// User is a line of the file.
type User struct {
	Name     string
	Role     identity.Role
	Groups   identity.Groups
	Disabled bool
	Display  string
	hash     string // "-": no password
}

// Errors of changes.
var (
	ErrExists  = errors.New("there is such a user already")
	ErrUnknown = errors.New("there is no user")
)

// Identity returns who the user is.
func (u *User) Identity() identity.Identity {
	return identity.Identity{Name: u.Name, Display: u.Display, Role: u.Role, Groups: u.Groups}
}

// Validate returns what is wrong with a user.
func (u *User) Validate() error {
	if _, err := identity.RoleOf(string(u.Role)); err != nil {
		return err
	}
	if u.Role == identity.Worker {
		return errors.New("a worker has a token or a certificate, and is no user")
	}
	if u.hash != "-" {
		if _, err := parseHash(u.hash); err != nil {
			return err
		}
	}
	if strings.HasPrefix(u.Name, "#") || u.Display != strings.TrimSpace(u.Display) {
		return errors.New("the name must not begin with #, and the shown name must not begin or end with blanks")
	}
	return errors.Join(identity.ValidateName(u.Name), identity.ValidateDisplay(u.Display),
		identity.ValidateScope(u.Role, u.Groups, ""))
}

// SetPassword sets the password.
func (u *User) SetPassword(password string) error {
	if err := CheckPassword(password); err != nil {
		return err
	}
	u.hash = hash(password)
	return nil
}

func (u *User) line() string {
	password := u.hash
	if u.Disabled {
		password = "!" + password
	}
	return strings.TrimRight(strings.Join([]string{u.Name, identity.WriteScope(u.Role, u.Groups, ""), password,
		u.Display}, " "), " ")
}

// Parse reads the text of a file. The error names every wrong line.
func Parse(text []byte) ([]User, error) {
	var all []User
	var mistakes []error
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		u, err := parseLine(line)
		if err == nil && slices.ContainsFunc(all, func(have User) bool { return have.Name == u.Name }) {
			err = fmt.Errorf("the user %s stands in an earlier line", u.Name)
		}
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("line %d: %w", n, err))
			continue
		}
		all = append(all, u)
	}
	return all, errors.Join(mistakes...)
}

func parseLine(line string) (User, error) {
	fields := strings.Fields(line)
	if len(fields) < 3 {
		return User{}, errors.New("it needs name, role, and a password's hash or -")
	}
	u := User{Name: fields[0], Display: strings.Join(fields[3:], " ")}
	u.hash, u.Disabled = strings.CutPrefix(fields[2], "!")
	var err error
	if u.Role, u.Groups, _, err = identity.ReadScope(fields[1]); err != nil {
		return User{}, err
	}
	return u, u.Validate()
}

// Read reads a file.
func Read(name string) ([]User, error) {
	text, err := sharedfile.Read(name)
	if err != nil {
		return nil, err
	}
	all, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return all, nil
}

// Add adds a user to a file, which is made if it is missing. ErrExists if it has one of that name.
func Add(name string, u User) error {
	return edit(name, func(all []User, text []byte) ([]byte, error) { return added(all, text, u) })
}

// AddFirst adds a user to a file whose users have no admin that is enabled. ErrExists if there is one.
func AddFirst(name string, u User) error {
	return edit(name, func(all []User, text []byte) ([]byte, error) {
		if HasAdmin(all) {
			return nil, fmt.Errorf("%w: an admin", ErrExists)
		}
		return added(all, text, u)
	})
}

func added(all []User, text []byte, u User) ([]byte, error) {
	if u.hash == "" {
		u.hash = "-"
	}
	if err := cmp.Or(u.Validate(), identity.CheckNewName(u.Name), identity.CheckNewGroups(u.Groups)); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(all, func(have User) bool { return have.Name == u.Name }) {
		return nil, fmt.Errorf("%w: %s", ErrExists, u.Name)
	}
	return sharedfile.AppendLine(text, u.line()), nil
}

// HasAdmin reports whether an admin among the users is enabled.
func HasAdmin(all []User) bool {
	return slices.ContainsFunc(all, func(u User) bool { return u.Role == identity.Admin && !u.Disabled })
}

// Change changes a user of a file.
func Change(name, user string, change func(*User) error) (changed User, err error) {
	err = edit(name, func(_ []User, text []byte) ([]byte, error) {
		var out []byte
		for line := range strings.Lines(string(text)) {
			u, err := parseLine(strings.TrimSpace(line))
			if err != nil || u.Name != user {
				out = append(out, line...)
				continue
			}
			if err := change(&u); err != nil {
				return nil, err
			}
			changed = u
			out = sharedfile.AppendLine(out, u.line())
		}
		if changed.Name == "" {
			return nil, fmt.Errorf("%w %s", ErrUnknown, user)
		}
		return out, nil
	})
	return changed, err
}

// Remark appends a comment line to a file: who changed it, when and why.
func Remark(name, text string) error {
	if len(text) > 1000 || strings.ContainsAny(text, "\r\n") {
		return errors.New("the note must have at most 1000 bytes and no line breaks")
	}
	return edit(name, func(_ []User, file []byte) ([]byte, error) {
		return sharedfile.AppendLine(file, "# "+text), nil
	})
}

// edit changes a file that is valid before and after.
func edit(name string, change func(all []User, text []byte) ([]byte, error)) error {
	check := func(text []byte) error {
		_, err := Parse(text)
		return err
	}
	return sharedfile.Edit(name, check, func(text []byte) ([]byte, error) {
		all, err := Parse(text)
		if err != nil {
			return nil, err
		}
		return change(all, text)
	})
}

// Users are those of a file, which is read again when it changes. It is safe for concurrent use.
type Users struct {
	Path string
	file *sharedfile.Watched[[]User]
}

// Open reads a file of users, which is made if it is missing.
func Open(path string, now func() time.Time) (*Users, error) {
	if err := edit(path, func(_ []User, text []byte) ([]byte, error) { return text, nil }); err != nil {
		return nil, fmt.Errorf("users: %w", err)
	}
	file, err := sharedfile.Watch(path, now, Parse)
	if err != nil {
		return nil, fmt.Errorf("users: %w", err)
	}
	return &Users{path, file}, nil
}

// All lists the users.
func (u *Users) All() ([]User, error) { return u.file.Value() }

// AddFirst is as the function AddFirst, for the file of the users. The user can sign in when it returns.
func (u *Users) AddFirst(one User) error {
	err := AddFirst(u.Path, one)
	if err == nil {
		_, err = u.file.Latest()
	}
	return err
}

// Find returns a user that is enabled.
func (u *Users) Find(name string) (User, bool) {
	all, _ := u.file.Value()
	for i := range all {
		if all[i].Name == name && !all[i].Disabled {
			return all[i], true
		}
	}
	return User{}, false
}

// Check returns the user who has a name and a password. It takes as long for a user that does not exist.
func (u *Users) Check(name, password string) (User, bool) {
	user, known := u.Find(name)
	return user, matches(password, user.hash) && known
}

// Stamp changes with the password of the user: a session that a password began ends when the password is changed.
func (u *User) Stamp() string {
	sum := sha256.Sum256([]byte(u.hash))
	return hex.EncodeToString(sum[:8])
}
