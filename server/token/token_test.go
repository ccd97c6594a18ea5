package token

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/internal/sharedfile"
	"github.com/stagepost/stagepost/server/identity"
)

func TestScope(t *testing.T) {
	for scope, want := range map[identity.Work]string{ // of a/x, a/y and b/x
		"": "", "a": "a/x a/y", "a/x": "a/x", "a/x,b/x": "a/x b/x", "a/xx": "", "aa": "", "b,a/y": "a/y b/x",
	} {
		var got []string
		for _, p := range [][2]string{{"a", "x"}, {"a", "y"}, {"b", "x"}} {
			if scope.Allows(p[0], p[1]) {
				got = append(got, p[0]+"/"+p[1])
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %v, want %s", scope, got, want)
		}
	}
	for _, line := range []string{"worker:", "worker:a/", "worker:/x", "worker:a//x", "worker:a,", "worker:a/x/y",
		"worker:service=", "worker:a,service=", "worker:service=a:b", "worker:service=a,service=",
		"depositor:a:b", "depositor:a,", "auditor:a", "worker:a\u202eb"} {
		if _, err := parseFile([]byte(strings.Repeat("ab", 32) + " " + line + " ann -\n")); err == nil {
			t.Errorf("%s was taken", line)
		}
	}
}

// TestServices: the scope of a worker's token names the services whose jobs it may run as an agent, and no kind.
func TestServices(t *testing.T) {
	for scope, want := range map[identity.Work]identity.Services{
		"": "", "a/x": "", "service=r": "r", "a,service=r,service=python": "r,python", "service=r,service=*": "*",
	} {
		name := filepath.Join(t.TempDir(), "tokens")
		s := newToken(t)
		if err := Add(name, Entry{Hash: s.Hash(), Role: identity.Worker, Owner: "node-1", Work: scope}); err != nil {
			t.Fatal(err)
		}
		tokens, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		who, err := tokens.Find(s.Reveal())
		if err != nil || who.Serves() != want {
			t.Errorf("%q: got %q, %v, want %q", scope, who.Serves(), err, want)
		}
	}
	if got := identity.Work("a").With("r", "python"); got != "a,service=r,service=python" {
		t.Errorf("got %q", got)
	}
}

func newToken(t *testing.T) Secret {
	t.Helper()
	s, err := New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParse(t *testing.T) {
	text := newToken(t).Reveal()
	if _, err := Parse(text); err != nil || len(text) != 52 {
		t.Fatalf("%d bytes: %v", len(text), err)
	}
	for i := len(Prefix); i < len(text); i++ { // a typo anywhere is found
		other := byte('A')
		if text[i] == 'A' {
			other = 'B'
		}
		if _, err := Parse(text[:i] + string(other) + text[i+1:]); !errors.Is(err, ErrTypo) {
			t.Errorf("a typo at %d: %v", i, err)
		}
	}
	for _, bad := range []string{"", "stp_", text[4:], text[:51], text + "A", " " + text, text + "\n", "STP_" +
		text[4:], text[:50] + "==", text[:51] + "+", text[:51] + "\n"} {
		if _, err := Parse(bad); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v", bad, err)
		} else if len(bad) > 10 && strings.Contains(err.Error(), bad[5:10]) {
			t.Errorf("the error quotes it: %v", err)
		}
	}
	if a, b := newToken(t), newToken(t); a.Reveal() == b.Reveal() {
		t.Error("two tokens are the same")
	}
}

// TestSecretNeverPrints prints a token in every way; the control is Reveal.
func TestSecretNeverPrints(t *testing.T) {
	s := newToken(t)
	text, err := json.Marshal([]Secret{s})
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []string{fmt.Sprint(s, &s), fmt.Sprintf("%s %v %+v %#v %x %q", s, s, s, s, s, s),
		fmt.Sprintf("%v %+v %#v", []Secret{s}, struct{ S Secret }{s}, &s), fmt.Sprintf("%v %+v %#v",
			struct{ s Secret }{s}, struct{ s Secret }{s}, struct{ s Secret }{s}), string(text)} {
		if strings.Contains(got, s.Reveal()[4:20]) || strings.Contains(got, fmt.Sprintf("%x", s.Reveal()[4:20])) {
			t.Errorf("it printed %s", got)
		}
	}
}

func TestParseFile(t *testing.T) {
	a, b := newToken(t).Hash(), newToken(t).Hash()
	when := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	want := []Entry{{a, identity.Depositor, "ann", when, "her laptop, since May", "", ""},
		{b, identity.Worker, "node-1", time.Time{}, "", "", "test.letter/Posted,test.parcel"}}
	text := "# who may come\n\n" + want[0].Line() + "\n  \t\n" + want[1].Line()
	got, err := parseFile([]byte(text))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, %s", err, diff)
	}
	if got, err := parseFile([]byte(strings.ReplaceAll(text, "\n", "\r\n"))); len(got) != 2 || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	for line, part := range map[string]string{
		"x user ann -": "64 hexadecimal", a.String() + " user ann": "it needs", a.String() + " root ann -": "role",
		a.String() + " User ann -": "role", a.String() + " user - -": "owner",
		a.String() + " user a\x01n -": "owner", a.String() + " user " + strings.Repeat("a", 201) + " -": "owner",
		a.String() + " user \xff -":       "owner",
		a.String() + " user ann tomorrow": "expiry", a.String() + " user ann 2030-01-02": "expiry", a.String() +
			" user ann - a\x01": "comment",
		a.String()[:63] + " user ann -": "64 hexadecimal", newToken(t).Reveal() + " user ann -": "instead of its hash",
	} {
		_, err := parseFile([]byte("# a comment\n" + b.String() + " admin root -\n" + line + "\n"))
		if err == nil || !strings.HasPrefix(err.Error(), "line 3: ") || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: got %v, want something about %s", line, err, part)
		}
		if err != nil && strings.Contains(err.Error(), Prefix) {
			t.Errorf("the error quotes a token: %v", err)
		}
	}
	twice := a.String() + " user ann -\n" + a.String() + " admin ann -\n"
	if _, err := parseFile([]byte(twice)); err == nil ||
		!strings.Contains(err.Error(), "line 2: the hash stands in line 1") {
		t.Errorf("got %v", err)
	}
}

// FuzzParseFile holds what is understood against how it is written.
func FuzzParseFile(f *testing.F) {
	f.Add([]byte(strings.Repeat("ab", 32) + " user ann - x\n# y\n"))
	f.Add([]byte(strings.Repeat("ab", 32) + "\tadmin  ann 2030-01-02T03:04:05+01:00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := parseFile(text)
		if err != nil {
			return
		}
		var lines strings.Builder
		for _, e := range all {
			lines.WriteString(e.Line() + "\n")
		}
		again, err := parseFile([]byte(lines.String()))
		if err != nil || len(again) != len(all) {
			t.Fatalf("%v: %q", err, lines.String())
		}
		for i := range all {
			if all[i].Line() != again[i].Line() {
				t.Errorf("%q became %q", all[i].Line(), again[i].Line())
			}
		}
	})
}

// file is a file of tokens with an hour hand of its own.
type file struct {
	*Tokens
	t    *testing.T
	path string
	now  time.Time
}

func openFile(t *testing.T, entries ...Entry) *file {
	t.Helper()
	f := &file{t: t, path: filepath.Join(t.TempDir(), "tokens")}
	for _, e := range entries {
		if err := Add(f.path, e); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if f.Tokens, err = Open(f.path); err != nil {
		t.Fatal(err)
	}
	f.now = time.Now()
	f.Tokens.now = func() time.Time { return f.now }
	return f
}

// check asks with headers and a path.
func (f *file) check(path string, authorization ...string) (identity.Identity, error) {
	r := httptest.NewRequestWithContext(f.t.Context(), http.MethodGet, path, nil)
	r.Header["Authorization"] = authorization
	return f.Identify(r)
}

func TestCheck(t *testing.T) {
	ann, old, stranger := newToken(t), newToken(t), newToken(t)
	f := openFile(t, Entry{ann.Hash(), identity.Depositor, "ann", time.Time{}, "", "", ""},
		Entry{old.Hash(), identity.Admin, "old", time.Now().Add(time.Hour), "", "", ""})
	for _, header := range []string{"Bearer " + ann.Reveal(), "bearer " + ann.Reveal(), "BEARER  " + ann.Reveal() +
		" "} {
		want := identity.Identity{Name: "ann", Role: identity.Depositor, Way: identity.ByToken, Key: ann.Hash()}
		if got, err := f.check("/", header); got != want || err != nil {
			t.Errorf("%s: got %v, %v", header[:8], got, err)
		}
	}
	want := identity.Identity{Name: "old", Role: identity.Admin, Way: identity.ByToken, Key: old.Hash()}
	if got, err := f.check("/", "Bearer "+old.Reveal()); got != want || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	f.now = f.now.Add(time.Hour)
	typo := ann.Reveal()[:51] + map[bool]string{true: "B", false: "A"}[ann.Reveal()[51] == 'A']
	for _, c := range []struct {
		path string
		sent []string
		want error
	}{
		{"/", nil, ErrNone},
		{"/", []string{"Bearer " + old.Reveal()}, ErrExpired},
		{"/", []string{"Bearer " + stranger.Reveal()}, ErrUnknown},
		{"/", []string{"Bearer " + typo}, ErrTypo},
		{"/", []string{"Bearer"}, ErrMalformed},
		{"/", []string{""}, ErrMalformed},
		{"/", []string{"Bearer x"}, ErrMalformed},
		{"/", []string{ann.Reveal()}, ErrMalformed},
		{"/", []string{"Basic " + ann.Reveal()}, ErrMalformed},
		{"/", []string{"Bearer " + ann.Hash().String()}, ErrMalformed},
		{"/", []string{"Bearer " + ann.Reveal(), "Bearer " + ann.Reveal()}, ErrMalformed},
		{"/", []string{"Bearer " + ann.Reveal() + ", Bearer " + ann.Reveal()}, ErrMalformed},
		{"/?token=" + ann.Reveal(), []string{"Bearer " + ann.Reveal()}, identity.ErrInURL},
		{"/?q=x" + ann.Reveal() + "y", []string{"Bearer " + ann.Reveal()}, identity.ErrInURL},
		{"/?" + ann.Reveal(), nil, identity.ErrInURL},
		{"/?access_token=abc", []string{"Bearer " + ann.Reveal()}, identity.ErrInURL},
		{"/a/" + typo, []string{"Bearer " + ann.Reveal()}, identity.ErrInURL},
		{"/?q=stp_&a=stp_short", []string{"Bearer " + ann.Reveal()}, nil},
	} {
		if _, err := f.check(c.path, c.sent...); !errors.Is(err, c.want) {
			t.Errorf("%s %d: got %v, want %v", c.path, len(c.sent), err, c.want)
		} else if err != nil && strings.Contains(err.Error(), ann.Reveal()[4:12]) {
			t.Errorf("the error has the token: %v", err)
		}
	}
}

// TestComparesAll counts comparisons: each entry is compared whole and by the constant-time function, wherever the
// right one stands and whether there is one. The control replaces the function by one that finds nothing.
func TestComparesAll(t *testing.T) {
	var entries []Entry
	var secrets []Secret
	for range 5 {
		s := newToken(t)
		secrets = append(secrets, s)
		entries = append(entries, Entry{s.Hash(), identity.Depositor, "ann", time.Time{}, "", "", ""})
	}
	f := openFile(t, entries...)
	n := 0
	f.same = func(a, b []byte) int {
		n++
		if len(a) != 32 || len(b) != 32 {
			t.Errorf("it compares %d and %d bytes", len(a), len(b))
		}
		return subtle.ConstantTimeCompare(a, b)
	}
	for _, s := range append(secrets, newToken(t)) {
		n = 0
		_, _ = f.check("/", "Bearer "+s.Reveal())
		if n != len(entries) {
			t.Errorf("%d comparisons, want %d", n, len(entries))
		}
	}
	f.same = func(_, _ []byte) int { return 0 }
	if _, err := f.check("/", "Bearer "+secrets[0].Reveal()); !errors.Is(err, ErrUnknown) {
		t.Errorf("something else compares: %v", err)
	}
}

func TestReload(t *testing.T) {
	ann, bob := newToken(t), newToken(t)
	f := openFile(t, Entry{ann.Hash(), identity.Depositor, "ann", time.Time{}, "", "", ""})
	in := func(s Secret) bool { _, err := f.check("/", "Bearer "+s.Reveal()); return err == nil }
	if err := Add(f.path, Entry{bob.Hash(), identity.Operator, "bob", time.Time{}, "", "", ""}); err != nil {
		t.Fatal(err)
	}
	if in(bob) {
		t.Error("it read the file again within the second")
	}
	f.now = f.now.Add(sharedfile.ReadEvery)
	if !in(bob) || !in(ann) {
		t.Error("a new token is not seen")
	}
	if e, err := Revoke(f.path, ann.Hash().String()[:8], time.Now(), "olga"); err != nil || e.Owner != "ann" {
		t.Fatalf("%v, %v", e, err)
	}
	f.now = f.now.Add(sharedfile.ReadEvery)
	if in(ann) || !in(bob) {
		t.Error("a revoked token is in force, or another one is not")
	}
	for what, spoil := range map[string]func() error{
		"broken":   func() error { return os.WriteFile(f.path, []byte("nonsense\n"), 0o600) },
		"gone":     func() error { return os.Remove(f.path) },
		"readable": func() error { return os.Chmod(f.path, 0o644) },
	} {
		before, err := os.ReadFile(f.path)
		if err != nil {
			t.Fatal(err)
		}
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		f.now = f.now.Add(sharedfile.ReadEvery)
		if _, err := f.check("/", "Bearer "+bob.Reveal()); !errors.Is(err, identity.ErrFault) || f.Fault() == nil ||
			len(f.All()) > 0 {
			t.Errorf("%s: all tokens must be refused, one may have been revoked: got %v, fault %v", what, err, f.Fault())
		}
		_ = os.Remove(f.path)
		if err := os.WriteFile(f.path, before, 0o600); err != nil {
			t.Fatal(err)
		}
		f.now = f.now.Add(sharedfile.ReadEvery)
		if !in(bob) || f.Fault() != nil || len(f.All()) != 1 {
			t.Errorf("%s and mended: %v", what, f.Fault())
		}
	}
}

func TestFileMode(t *testing.T) {
	name := filepath.Join(t.TempDir(), "tokens")
	if err := Add(name, Entry{newToken(t).Hash(), identity.Depositor, "ann", time.Time{}, "", "", ""}); err != nil {
		t.Fatal(err)
	}
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: true, 0o660: false, 0o644: false,
		0o602: false, 0o604: false, 0o777: false} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(name); (err == nil) != ok {
			t.Errorf("mode %#o: %v", mode, err)
		}
	}
	if _, err := Open(t.TempDir()); err == nil {
		t.Error("a directory is no file of tokens")
	}
	if _, err := Open(name + ".not"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestRevoke(t *testing.T) {
	f := openFile(t, Entry{identity.Key{1, 2, 3, 4, 5}, identity.Depositor, "ann", time.Time{}, "", "", ""},
		Entry{identity.Key{1, 2, 3, 4, 6}, identity.Depositor, "bob", time.Time{}, "", "", ""})
	for _, bad := range []string{"", "0102030", "01020304", "99999999", "zzzzzzzz", strings.Repeat("0", 65)} {
		if _, err := Revoke(f.path, bad, time.Now(), "olga"); err == nil {
			t.Errorf("%q revoked something", bad)
		}
	}
	if left, err := Read(f.path); len(left) != 2 || err != nil {
		t.Fatalf("%v, %v", left, err)
	}
	if e, err := Revoke(f.path, "0102030406", time.Now(), "olga"); err != nil || e.Owner != "bob" {
		t.Errorf("%v, %v", e, err)
	}
	if left, _ := os.ReadDir(filepath.Dir(f.path)); len(left) != 1 {
		t.Errorf("files are left: %v", left)
	}
}

// TestRewriteKeepsOwnerAndMode edits a file that belongs to another user, as root does with the file of a service.
// Without root it is our own file, and the group and mode are what is kept.
func TestRewriteKeepsOwnerAndMode(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "tokens")
	ann := newToken(t)
	if err := Add(name, Entry{Hash: ann.Hash(), Role: identity.Depositor, Owner: "ann"}); err != nil {
		t.Fatal(err)
	}
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid, gid = 10_001, 10_002
	}
	if err := errors.Join(os.Chown(name, uid, gid), os.Chmod(name, 0o640)); err != nil {
		t.Fatal(err)
	}
	for what, edit := range map[string]func() error{
		"add": func() error {
			return Add(name, Entry{Hash: newToken(t).Hash(), Role: identity.Depositor, Owner: "bob"})
		},
		"revoke": func() error { _, err := Revoke(name, ann.Hash().String(), time.Now(), "olga"); return err },
	} {
		if err := edit(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if u, g, mode := ownerOf(t, name); u != uid || g != gid || mode != 0o640 {
			t.Errorf("%s: user %d, group %d, mode %#o, want %d, %d, 0640", what, u, g, mode, uid, gid)
		}
	}
	if err := os.Chown(dir, uid, gid); err != nil { // a new file in the directory of a service
		t.Fatal(err)
	}
	if err := Add(name+".new", Entry{Hash: ann.Hash(), Role: identity.Depositor, Owner: "ann"}); err != nil {
		t.Fatal(err)
	}
	if u, _, mode := ownerOf(t, name+".new"); u != uid || mode != 0o600 {
		t.Errorf("a new file: user %d, mode %#o", u, mode)
	}
}

func ownerOf(t *testing.T, name string) (uid, gid int, mode os.FileMode) {
	t.Helper()
	stat, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	of := stat.Sys().(*syscall.Stat_t)
	return int(of.Uid), int(of.Gid), stat.Mode().Perm()
}
