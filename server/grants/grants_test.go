package grants_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/server/account"
	"github.com/stagepost/stagepost/server/authority"
	"github.com/stagepost/stagepost/server/grants"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/token"
)

// harness has files, and the entries that were made since the last call.
type harness struct {
	grants.Files
	t   *testing.T
	now time.Time // later than the change of every file
}

func open(t *testing.T) *harness {
	t.Helper()
	dir := t.TempDir()
	h := &harness{t: t, now: time.Now().Add(time.Minute), Files: grants.Files{Tokens: filepath.Join(dir, "tokens"),
		Users: filepath.Join(dir, "users"), Authority: filepath.Join(dir, "ca"), Seen: filepath.Join(dir, "seen")}}
	h.must(authority.Init(h.Authority, time.Now()))
	return h
}

func (h *harness) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) addToken(owner string, role identity.Role) token.Entry {
	h.t.Helper()
	s, err := token.New(rand.Reader)
	h.must(err)
	e := token.Entry{Hash: s.Hash(), Role: role, Owner: owner}
	h.must(token.Add(h.Tokens, e))
	return e
}

var digits = regexp.MustCompile(`[0-9a-f]{16}|[0-9-]{10}T[0-9:]+Z`)

// entered compares the files and checks the entries that are made, with # for hashes and times.
func (h *harness) entered(want ...string) {
	h.t.Helper()
	got := []string{}
	h.must(h.Enter(h.now, func(c grants.Change) error {
		got = append(got, digits.ReplaceAllString(fmt.Sprintf("%s %s: %s %s", c.Actor, c.Event, c.Object, c.Note), "#"))
		return nil
	}))
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
		h.t.Error(diff)
	}
}

// TestEnter: what is added to the files, changed and removed is entered once, with the person of the comment.
func TestEnter(t *testing.T) {
	h := open(t)
	ann := h.addToken("ann", identity.Depositor)
	oscar := account.User{Name: "oscar", Role: identity.Operator}
	h.must(oscar.SetPassword("correct horse battery"))
	h.must(account.Add(h.Users, oscar))
	_, err := authority.Enrol(h.Authority, authority.Member{Name: "lab-1", Work: "k"},
		authority.By{Actor: "ada", Note: "a new lab"}, time.Now(),
		time.Now().Add(time.Hour))
	h.must(err)
	h.entered("unknown add-token: token #: depositor ann ", "unknown add-user: user oscar: operator ",
		"ada add-enrolment: enrolment #: lab-1 work=k services= until # a new lab")
	h.entered()

	_, err = token.Revoke(h.Tokens, ann.Hash.String(), time.Now(), "ada: she left")
	h.must(err)
	h.addToken("ann", identity.Auditor)
	_, err = account.Change(h.Users, "oscar", func(u *account.User) error {
		u.Role, u.Groups = identity.Depositor, "maps"
		return nil
	})
	h.must(err)
	h.entered("ada remove-token: token #: depositor ann she left", "unknown add-token: token #: auditor ann ",
		"unknown change-user: user oscar: operator to depositor:maps ")

	for _, change := range []func(*account.User) error{
		func(u *account.User) error { return u.SetPassword("another horse battery") },
		func(u *account.User) error { u.Disabled = true; return nil },
	} {
		_, err = account.Change(h.Users, "oscar", change)
		h.must(err)
	}
	h.entered("unknown change-user: user oscar: depositor:maps to depositor:maps disabled ")
	_, err = authority.Revoke(h.Authority, "lab-1", authority.By{}, time.Now())
	h.must(err)
	h.entered() // an unused enrolment token that is gone gave no access
	text, err := os.ReadFile(h.Seen)
	h.must(err)
	if strings.Contains(string(text), "argon2") || strings.Contains(string(text), ann.Hash.String()) {
		t.Errorf("the file has secrets of the others: %s", text)
	}
}

// TestEnterAgain: what could not be entered is entered later, a file that cannot be read changes nothing, and one that
// has just changed waits for its comment.
func TestEnterAgain(t *testing.T) {
	h := open(t)
	h.addToken("ann", identity.Admin)
	refused := errors.New("the store is away")
	if err := h.Enter(h.now, func(grants.Change) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	h.now = time.Now()
	if !h.Steady(h.now.Add(time.Minute)) || h.Steady(h.now) {
		t.Error("a file that has just changed is steady, or an old one is not")
	}
	h.entered()
	h.now = h.now.Add(time.Minute)
	h.entered("unknown add-token: token #: admin ann ")
	before, err := os.ReadFile(h.Tokens)
	h.must(err)
	h.must(os.WriteFile(h.Tokens, []byte("nonsense\n"), 0o600))
	h.entered()
	h.must(os.WriteFile(h.Tokens, before, 0o600))
	h.entered()
	if h.Stamp() == "" {
		t.Error("there is no stamp")
	}
}
