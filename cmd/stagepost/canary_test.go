package main

import (
	"archive/zip"
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stagepost/stagepost/host"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/account"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/token"
)

// searched has all texts in which no secret may be, by where they are.
type searched struct {
	mu    sync.Mutex // guards texts, because the log is written concurrently
	texts map[string]*bytes.Buffer
}

func (s *searched) add(where string, text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.texts[where] == nil {
		s.texts[where] = new(bytes.Buffer)
	}
	s.texts[where].Write(text)
}

// Write takes the log of the server.
func (s *searched) Write(text []byte) (int, error) {
	s.add("log", text)
	return len(text), nil
}

// with lists where a text is.
func (s *searched) with(text string) (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for where, b := range s.texts {
		if bytes.Contains(b.Bytes(), []byte(text)) {
			all = append(all, where)
		}
	}
	return all
}

// addTree adds all files of a directory.
func (s *searched) addTree(t *testing.T, where, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		s.add(where, append([]byte(path+"\n"), text...))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// canaries are secrets that nothing else has.
type canaries struct {
	dir     string // of the files that have them
	secrets map[string]string
}

func (c *canaries) plant(t *testing.T, name string) (file string) {
	t.Helper()
	c.secrets[name] = "canary-" + rand.Text()
	file = filepath.Join(c.dir, name)
	if err := os.WriteFile(file, []byte(c.secrets[name]+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// plantProfile makes the profile maps, whose callback is signed with a secret.
func (c *canaries) plantProfile(t *testing.T, data string) {
	t.Helper()
	profiles := filepath.Join(data, "profiles")
	if err := os.MkdirAll(profiles, 0o700); err != nil {
		t.Fatal(err)
	}
	profile := fmt.Sprintf("id: maps\ncallback:\n  url: https://hooks.invalid/done\n  secret_file: %q\n",
		c.plant(t, "hook secret"))
	if err := os.WriteFile(filepath.Join(profiles, "maps.yaml"), []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
}

// plantedServer starts a server of the whole program that has a secret of each kind.
func plantedServer(t *testing.T, c *canaries, data string, log io.Writer) *host.Server {
	t.Helper()
	s := newSettings()
	s.Data, s.Listen, s.LogLevel = data, "127.0.0.1:0", "debug"
	s.Tokens, s.Users = filepath.Join(c.dir, "tokens"), filepath.Join(c.dir, "users")
	s.MailSMTP, s.MailUser, s.MailPassword = "127.0.0.1:1", "stagepost", c.plant(t, "mail password")
	s.ProxyUser, s.ProxyFrom, s.ProxySecret = "X-Remote-User", "192.0.2.0/24", c.plant(t, "proxy secret")
	s.RoleRules = "operator=*;"
	c.plant(t, "password")
	u := account.User{Name: "ann", Role: identity.Admin}
	if err := u.SetPassword(c.secrets["password"]); err != nil {
		t.Fatal(err)
	}
	if err := account.Add(s.Users, u); err != nil {
		t.Fatal(err)
	}
	secret, err := token.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.secrets["token"] = secret.Reveal()
	if err := token.Add(s.Tokens, token.Entry{Hash: secret.Hash(), Role: identity.Admin, Owner: "ada"}); err != nil {
		t.Fatal(err)
	}
	c.plantProfile(t, data)
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r, err := host.Start(t.Context(), s, logger)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// visit is a browser and a program that use a server, and keep all that it answers.
type visit struct {
	t    *testing.T
	url  string
	all  *searched
	http http.Client
}

func (v *visit) ask(where, method, path, token string, form url.Values) *http.Response {
	v.t.Helper()
	body := io.Reader(nil)
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	q, err := http.NewRequestWithContext(v.t.Context(), method, v.url+path, body)
	if err != nil {
		v.t.Fatal(err)
	}
	q.Header.Set("Accept", "text/html,application/json;q=0.9")
	if form != nil {
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := v.http.Do(q)
	if err != nil {
		v.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "application/zip") {
		text = unpacked(v.t, text)
	}
	v.all.add(where, text)
	return answer
}

// unpacked returns the files of a ZIP file, one after another.
func unpacked(t *testing.T, text []byte) []byte {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(&all, r); err != nil { // files of this test
			t.Fatal(err)
		}
	}
	return all.Bytes()
}

// inBackups are the secrets whose files the configuration names: a backup has these files, for its owner alone.
var inBackups = []string{"mail password", "proxy secret", "hook secret"}

// TestCanaries: no secret that a server has or is sent is in its log, its answers, its data directory with the
// databases, an export, a backup, its arguments, or what commands print. The control is a text that is no secret: it is
// found in each of them, but for the arguments. TestCanariesOfChildren searches mails and what the server starts.
func TestCanaries(t *testing.T) {
	all := &searched{texts: map[string]*bytes.Buffer{}}
	c := &canaries{dir: t.TempDir(), secrets: map[string]string{}}
	data, backups := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	r := plantedServer(t, c, data, all)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	v := &visit{t: t, url: r.URL, all: all, http: http.Client{Jar: jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	visible := "visible-" + rand.Text()
	secret := c.secrets["token"]
	c.secrets["wrong password"] = "canary-" + rand.Text()
	v.ask("answers", http.MethodPost, server.SignInPath, "", url.Values{"name": {"ann"},
		"password": {c.secrets["wrong password"]}})
	in := v.ask("answers", http.MethodPost, server.SignInPath, "", url.Values{"name": {"ann"},
		"password": {c.secrets["password"]}})
	if in.StatusCode != http.StatusSeeOther || len(in.Cookies()) == 0 {
		t.Fatalf("sign-in: %s", in.Status)
	}
	c.secrets["session"] = in.Cookies()[0].Value
	v.ask("answers", http.MethodGet, "/api/v1/jobs?access_token="+secret, "", nil)
	v.ask("answers", http.MethodGet, "/api/v1/jobs/"+visible+"?token="+secret, secret, nil)
	v.ask("answers", http.MethodPost, "/api/v1/jobs/"+visible+"/events/hold", secret, url.Values{})
	if got := v.ask("answers", http.MethodPost, "/holds", "", url.Values{"group": {"maps"},
		"why": {visible}}); got.StatusCode != http.StatusSeeOther {
		t.Fatalf("hold: %s", got.Status)
	}
	for _, route := range server.Routes() {
		if route.Method == http.MethodGet && !strings.Contains(route.Pattern, "{") &&
			route.Pattern != "/api/v1/admin/export" {
			v.ask("answers", http.MethodGet, route.Pattern, secret, nil)
		}
	}
	for _, path := range []string{"/holds", "/audit", "/tokens", "/workers", "/outbox", "/api/v1/admin/tokens",
		"/api/v1/admin/sessions", "/api/v1/ingest/profiles/maps"} {
		v.ask("answers", http.MethodGet, path, "", nil)
	}
	v.ask("export", http.MethodGet, "/api/v1/admin/export", secret, nil)
	t.Setenv("STAGEPOST_SERVER", r.URL)
	name := filepath.Join(c.dir, "token file")
	if err := os.WriteFile(name, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("STAGEPOST_TOKEN_FILE", name)
	for _, args := range [][]string{{"admin", "audit"}, {"holds", "-o", "json"}, {"admin", "config"},
		{"ingest", "profile", "show", "maps"}, {"admin", "health"}, {"admin", "token", "list",
			filepath.Join(c.dir, "tokens")}, {"admin", "backup", backups, "--note", "a test"}} {
		out, errs := called(t, false, args...)
		all.add("commands", []byte(out+errs))
	}
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
	all.addTree(t, "data directory", data)
	all.addTree(t, "backup", backups)
	if info, err := os.Stat(backups); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the backup is for others too: %v, %v", info.Mode(), err)
	}
	all.add("arguments", []byte(strings.Join(os.Args, "\n")))
	for name, secret := range c.secrets {
		where := all.with(secret)
		if slices.Contains(inBackups, name) {
			where = slices.DeleteFunc(where, func(one string) bool { return one == "backup" })
		}
		if len(where) > 0 {
			t.Errorf("the %s is in: %s", name, strings.Join(where, ", "))
		}
	}
	if where := all.with(visible); len(where) != 6 {
		t.Errorf("the control: the visible text is in %q alone", where)
	}
}
