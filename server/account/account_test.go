package account

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/internal/sharedfile"
	"github.com/stagepost/stagepost/server/identity"
)

const good = "correct horse battery"

func user(t *testing.T, name string, role identity.Role) User {
	t.Helper()
	u := User{Name: name, Role: role, Display: "Ann A."}
	if err := u.SetPassword(good); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestUsers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	now := time.Now()
	all, err := Open(path, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	if err := AddFirst(path, user(t, "ann", identity.Admin)); err != nil {
		t.Fatal(err)
	}
	if err := AddFirst(path, user(t, "eve", identity.Admin)); !errors.Is(err, ErrExists) {
		t.Errorf("a second first admin: %v", err)
	}
	if err := Add(path, user(t, "ann", identity.Operator)); !errors.Is(err, ErrExists) {
		t.Errorf("a second ann: %v", err)
	}
	now = now.Add(sharedfile.ReadEvery)
	if u, ok := all.Check("ann", good); !ok || u.Role != identity.Admin || u.Display != "Ann A." {
		t.Errorf("got %+v, %v", u, ok)
	}
	for name, password := range map[string]string{"ann": "correct horse batterz", "eve": good, "": ""} {
		if _, ok := all.Check(name, password); ok {
			t.Errorf("%q %q was accepted", name, password)
		}
	}
	if _, err := Change(path, "ann", func(u *User) error { u.Disabled = true; return nil }); err != nil {
		t.Fatal(err)
	}
	now = now.Add(sharedfile.ReadEvery)
	if _, ok := all.Check("ann", good); ok {
		t.Error("a disabled user was accepted")
	}
	if _, err := Change(path, "bob", func(*User) error { return nil }); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v", err)
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(text), "horse") || !strings.Contains(string(text), "!$argon2id$") {
		t.Errorf("the file: %q, %v", text, err)
	}
}

func TestWrongLines(t *testing.T) {
	h := hash(good)
	for line, part := range map[string]string{
		"ann admin":               "it needs",
		"ann root " + h:           "role",
		"ann worker " + h:         "no user",
		"ann auditor:maps " + h:   "limited to groups",
		"ann admin secret":        "argon2id",
		"ann admin " + h[:40]:     "argon2id",
		"- admin " + h:            "name",
		"ann operator:maps, " + h: "groups",
		"ann admin " + strings.Replace(h, "t=2", "t=99", 1): "argon2id",
	} {
		if _, err := Parse([]byte("bob admin -\n" + line + "\n")); err == nil ||
			!strings.HasPrefix(err.Error(), "line 2: ") || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: got %v, want something about %s", line, err, part)
		}
	}
	if _, err := Parse([]byte("ann admin -\nann depositor -\n")); err == nil {
		t.Error("a name stands twice")
	}
	for _, bad := range []string{"", "short", "123456789", strings.Repeat("x", 1025), "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"} {
		if CheckPassword(bad) == nil {
			t.Errorf("%q is a password", bad)
		}
	}
}
