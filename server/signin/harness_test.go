package signin_test

import (
	"cmp"
	"crypto/rand"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/account"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/server/signin"
	"github.com/stagepost/stagepost/server/token"
)

const password = "correct horse battery"

// harness is a server with local users, tokens and a provider.
type harness struct {
	*servertest.Harness
	app           *signin.SignIn
	robot, worker string // tokens of an operator and a worker
	users         string
	tokens        string
	noted         *token.Tokens
	clock         *servertest.Clock
	user          string       // whom changeUser changes; empty: ann
	last          *http.Cookie // of the session that a test is about
}

// open starts one whose users are ann (depositor), oscar (operator) and ada (admin).
func open(t *testing.T, change func(*signin.Options), sources ...identity.Source) *harness {
	t.Helper()
	dir := t.TempDir()
	h := &harness{users: filepath.Join(dir, "users"), tokens: filepath.Join(dir, "tokens"),
		clock: servertest.NewClock()}
	if err := os.WriteFile(h.users, usersFile(t), 0o600); err != nil {
		t.Fatal(err)
	}
	users, err := account.Open(h.users, h.clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	h.robot, h.worker = h.addToken(t, "robot", identity.Operator), h.addToken(t, "node", identity.Worker)
	tokens, err := token.Open(h.tokens)
	if err != nil {
		t.Fatal(err)
	}
	h.noted = tokens
	o := signin.Options{Dir: filepath.Join(dir, "sessions"), Users: users, Tokens: tokens, Now: h.clock.Now}
	if change != nil {
		change(&o)
	}
	if h.app, err = signin.Open(o); err != nil {
		t.Fatal(err)
	}
	all := append(identity.Sources{tokens, h.app}, sources...)
	h.Harness = servertest.Open(t, func(so *server.Options) { so.Identities, so.SignIn = all, true }, nil,
		func(w *servertest.Harness) server.Part { return signin.Part(w.Server, h.app) })
	return h
}

// madeUsers makes the file of users once: a hash takes its time.
var madeUsers = sync.OnceValues(func() (text []byte, err error) {
	dir, err := os.MkdirTemp("", "users")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	name, u := filepath.Join(dir, "users"), account.User{}
	err = u.SetPassword(password)
	for user, role := range map[string]identity.Role{"ann": identity.Depositor, "oscar": identity.Operator,
		"ada": identity.Admin} {
		u.Name, u.Role = user, role
		err = errors.Join(err, account.Add(name, u))
	}
	text, wrong := os.ReadFile(name)
	return text, errors.Join(err, wrong)
})

func usersFile(t *testing.T) []byte {
	t.Helper()
	text, err := madeUsers()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (h *harness) addToken(t *testing.T, owner string, role identity.Role) string {
	t.Helper()
	s, err := token.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := token.Add(h.tokens, token.Entry{Hash: s.Hash(), Role: role, Owner: owner}); err != nil {
		t.Fatal(err)
	}
	return s.Reveal()
}

// post sends a form as the page of sign-in does.
func (h *harness) post(path string, cookie *http.Cookie, form url.Values) *http.Response {
	h.T.Helper()
	r := h.Request(http.MethodPost, path, form.Encode())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if cookie != nil {
		r.AddCookie(cookie)
	}
	answer, _ := h.Ask(r)
	return answer
}

// signIn signs a user in and returns the cookie.
func (h *harness) signIn(name string) *http.Cookie {
	h.T.Helper()
	answer := h.post(server.SignInPath, nil, url.Values{"name": {name}, "password": {password}, "next": {"/healthz"}})
	if answer.StatusCode != http.StatusSeeOther || answer.Header.Get("Location") != "/healthz" {
		h.T.Fatalf("%s: got %s to %s", name, answer.Status, answer.Header.Get("Location"))
	}
	return cookieOf(h.T, answer)
}

func cookieOf(t *testing.T, answer *http.Response) *http.Cookie {
	t.Helper()
	for _, c := range answer.Cookies() {
		if strings.HasSuffix(c.Name, "stagepost") && c.MaxAge > 0 {
			return c
		}
	}
	t.Fatal("the answer has no cookie of a session")
	return nil
}

// status asks for a path with a cookie.
func (h *harness) status(method, path string, cookie *http.Cookie) int {
	h.T.Helper()
	r := h.Request(method, path, "")
	if cookie != nil {
		r.AddCookie(cookie)
	}
	answer, _ := h.Ask(r)
	return answer.StatusCode
}

// audited returns the entries of the audit list with an event.
func (h *harness) audited(event string) (all []job.Audit) {
	h.T.Helper()
	list, err := h.Engine.Store().Audit(h.T.Context(), 0, 1000)
	if err != nil {
		h.T.Fatal(err)
	}
	for _, a := range list {
		if string(a.Event) == event {
			all = append(all, a)
		}
	}
	return all
}

// recorded is a request that a source is asked about directly.
func recorded(t *testing.T, from string, header http.Header) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.RemoteAddr = from + ":1234"
	for name, values := range header {
		r.Header[name] = values
	}
	return r
}

// cookie returns the cookie of the session that a test is about.
func (h *harness) cookie(t *testing.T) *http.Cookie {
	t.Helper()
	return h.last
}

// changeUser changes a user, ann by default, so that the server has read it.
func (h *harness) changeUser(t *testing.T, change func(*account.User) error) {
	t.Helper()
	if _, err := account.Change(h.users, cmp.Or(h.user, "ann"), change); err != nil {
		t.Fatal(err)
	}
	h.clock.Add(2 * time.Second)
}

// files lists the files of sessions.
func (h *harness) files(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(filepath.Dir(h.users), "sessions", "*"))
	if err != nil || len(all) == 0 {
		t.Fatalf("there are no sessions: %v", err)
	}
	return all
}

// letterOf makes a job of an owner.
func (h *harness) letterOf(owner string) job.ID { return h.Post(engine.Order{Owner: owner}).ID }
