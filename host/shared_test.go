package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/host/stores"
	"github.com/stagepost/stagepost/internal/pgtest"
	"github.com/stagepost/stagepost/job"
)

var databases = pgtest.Lazy{Reset: "DROP SCHEMA public CASCADE; CREATE SCHEMA public"}

func TestMain(m *testing.M) {
	code := m.Run()
	databases.Stop()
	os.Exit(code)
}

// newDatabase makes an empty database and returns its URL.
func newDatabase(t *testing.T) string {
	t.Helper()
	u := url.URL{Scheme: "postgres", User: url.User("postgres")}
	q := url.Values{}
	for _, field := range strings.Fields(databases.Database(t)) {
		switch key, value, _ := strings.Cut(field, "="); key {
		case "host":
			q.Set("host", value)
		case "dbname":
			u.Path = "/" + value
		}
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// TestHealthEndsWithItsRequest: the query for the server that leads ends with the request for the health.
func TestHealthEndsWithItsRequest(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the client is gone")
	var ended error
	r := &Server{store: &stores.Store{Leader: func(asked context.Context) (string, bool, error) {
		cancel(gone)
		<-asked.Done()
		ended = context.Cause(asked)
		return "", false, ended
	}}}
	var h client.Health
	if r.describeStore(ctx, &h); !strings.HasPrefix(h.Leader, "not known") || ended != gone {
		t.Errorf("got %+v; the query ended with %v", h, ended)
	}
}

// sharing starts a server on a store and a shared directory.
func sharing(t *testing.T, store, shared, data string) (*Server, error) {
	t.Helper()
	s := NewSettings()
	s.Data, s.Listen, s.Store, s.Shared = data, "127.0.0.1:0", store, shared
	r, err := Start(t.Context(), s, slog.New(slog.DiscardHandler))
	if err == nil {
		t.Cleanup(func() {
			if err := r.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	return r, err
}

// TestSharedStore starts several servers on one database: names differ, one leads, health names it, and servers that
// have other files or a data directory in use are refused with what to do.
func TestSharedStore(t *testing.T) {
	store, shared := newDatabase(t), t.TempDir()
	a, err := sharing(t, store, shared, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b, err := sharing(t, store, shared, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, r := range []*Server{a, b} {
		h := healthFrom(t, r)
		if h.Store != "postgres" || !strings.HasPrefix(h.Location, "test_") || !strings.Contains(h.Location, " on /") {
			t.Errorf("health %+v", h)
		}
		name, _, _ := strings.Cut(h.Engine, "/")
		names[name] = true
		for h.Leader == "" || strings.HasPrefix(h.Leader, "none") { // the time limit of the test ends it
			h = healthFrom(t, r)
		}
		if !names[h.Leader] && h.Leader != (&serveSettings{Store: store}).serverName(b.Data) {
			t.Errorf("leader %q of %v", h.Leader, names)
		}
	}
	if len(names) != 2 || a.Engine.Leads() == b.Engine.Leads() {
		t.Errorf("names %v, leads %v and %v", names, a.Engine.Leads(), b.Engine.Leads())
	}
	if err := os.WriteFile(filepath.Join(shared, "seen"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	if _, err := sharing(t, newDatabase(t), other, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct{ store, shared, data, want string }{
		"no shared directory": {store, "", t.TempDir(), "has no file shared-id"},
		"another store's":     {store, other, t.TempDir(), "has the files of another store"},
		"for a new store":     {newDatabase(t), other, t.TempDir(), "no server has used the database"},
		"not mounted":         {store, filepath.Join(other, "gone"), t.TempDir(), "mount its file system"},
		"same data directory": {store, shared, a.Data, "another server runs on this data directory"},
		"sqlite on its files": {"sqlite", "", shared, "are in another store"},
		"no database server":  {"postgres://u@127.0.0.1:1/jobs", shared, t.TempDir(), "127.0.0.1:1 of the setting"},
		"shared for sqlite":   {"sqlite", shared, t.TempDir(), "shared is for a store of several servers"},
	} {
		if _, err := sharing(t, c.store, c.shared, c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func healthFrom(t *testing.T, r *Server) client.Health {
	t.Helper()
	api, err := client.New(r.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h, err := api.Health(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestNextLeader: when the server that leads stops, another one leads, and a server that has stopped can start again.
func TestNextLeader(t *testing.T) {
	store, shared, data := newDatabase(t), t.TempDir(), t.TempDir()
	s := NewSettings()
	s.Data, s.Listen, s.Store, s.Shared = data, "127.0.0.1:0", store, shared
	first, err := Start(t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for !first.Engine.Leads() { // the time limit of the test ends it
		time.Sleep(time.Millisecond)
	}
	second, err := sharing(t, store, shared, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if second.Engine.Leads() {
		t.Error("both lead")
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	for !second.Engine.Leads() {
		time.Sleep(time.Millisecond)
	}
	if _, err := sharing(t, store, shared, data); err != nil {
		t.Error(err)
	}
}

// TestStoreMaintenance: what a store in PostgreSQL does not do itself is refused with what to do instead.
func TestStoreMaintenance(t *testing.T) {
	data := t.TempDir()
	r, err := sharing(t, newDatabase(t), "", data)
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(r.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if c, err := api.Verify(ctx, client.Verify{}); err != nil || !c.Sound {
		t.Errorf("verify: %+v, %v", c, err)
	}
	if c, err := api.Fsck(ctx, client.Fsck{}); err != nil || !c.Sound {
		t.Errorf("fsck: %+v, %v", c, err)
	}
	_, backup := api.Backup(ctx, client.Backup{Name: "one"})
	_, repair := api.Fsck(ctx, client.Fsck{Repair: true})
	var export strings.Builder
	if err := api.Export(ctx, &export); err != nil || export.Len() == 0 {
		t.Errorf("export: %d bytes, %v", export.Len(), err)
	}
	for want, err := range map[string]error{"pg_dump": backup, "leave out --repair": repair} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	s := NewSettings()
	s.Data, s.Listen, s.Store, s.BackupEvery = t.TempDir(), "127.0.0.1:0", newDatabase(t), time.Hour
	if r, err := Start(ctx, s, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "pg_dump") {
		t.Errorf("scheduled backups: %v, %v", r, err)
	}
}

// TestStorePassword: the password of the database comes from a file or a URL that no other user sees, and neither
// messages nor the list of settings show it.
func TestStorePassword(t *testing.T) {
	const secret = "tr0ub4dor"
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	options := func(store, file, origin string) (stores.Options, error) {
		s := NewSettings()
		s.Store, s.StorePassword = store, file
		s.Origin["store"] = origin
		return s.storeOptions(t.TempDir(), t.TempDir())
	}
	if o, err := options("postgres://ann@db/jobs", file, "flag --store"); err != nil || o.Password != secret {
		t.Errorf("from a file: %v", err)
	}
	if _, err := options("postgres://ann:"+secret+"@db/jobs", "", "file stagepost.yaml:3"); err != nil {
		t.Errorf("from the URL in a file: %v", err)
	}
	_, err := options("postgres://ann:"+secret+"@db/jobs", "", "flag --store")
	if err == nil || !strings.Contains(err.Error(), "store-password-file") {
		t.Errorf("on the command line: %v", err)
	}
	all := fmt.Sprint(err)
	for _, where := range []string{"postgres://ann@nowhere.invalid/jobs",
		"postgres://ann:" + secret + "@/jobs?host=/nowhere",
		"postgre://ann:" + secret + "@db/jobs", "postgres://ann:" + secret + "@db:port/jobs",
		"postgres://ann@db/jobs?password=" + secret} {
		o := stores.Options{Where: where, Dir: t.TempDir(), Patience: job.Off}
		if !strings.Contains(where, secret) {
			o.Password = secret
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		s, err := stores.Open(ctx, o)
		cancel()
		if err == nil {
			t.Errorf("%s is opened: %v", where, s)
		}
		all += fmt.Sprint(err)
	}
	s := NewSettings()
	for _, one := range s.All() {
		if one.Name == "store" {
			for _, where := range []string{"postgres://ann:" + secret + "@db/jobs",
				"postgres://ann:" + secret + "@/jobs?host=/run"} {
				if err := one.Set(where); err != nil {
					t.Fatal(err)
				}
				all += one.Shown()
				if u, err := url.Parse(one.Shown()); err != nil || u.User.Username() != "ann" {
					t.Errorf("shown as %s", one.Shown())
				}
			}
		}
	}
	if strings.Contains(all, secret) {
		t.Errorf("the password is shown: %s", all)
	}
}

// TestStoreConnections bounds the connections that read by the setting.
func TestStoreConnections(t *testing.T) {
	s := NewSettings()
	s.Store, s.StoreReaders = newDatabase(t), 3
	dir := t.TempDir()
	o, err := s.storeOptions(dir, dir)
	if err != nil {
		t.Fatal(err)
	}
	st, err := stores.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Closer.Close()
	if _, most := st.Connections(); most != 3 {
		t.Errorf("%d connections may read, want 3", most)
	}
}

// TestDatabaseErrorsNameTheSetting: an error of the database at the start names the setting, and not the password.
func TestDatabaseErrorsNameTheSetting(t *testing.T) {
	u, err := url.Parse(newDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	unknown, missing := *u, *u
	unknown.User = url.UserPassword("nobody-here", "hunter2")
	missing.User, missing.Path = url.UserPassword("postgres", "hunter2"), "/nowhere"
	for what, address := range map[string]string{
		"an unknown user": unknown.String(), "no such database": missing.String(),
		"a wrong parameter": "postgres://ann:hunter2@127.0.0.1:1/jobs?connect_timeout=hunter",
	} {
		_, err := sharing(t, address, t.TempDir(), t.TempDir())
		if err == nil || !strings.Contains(err.Error(), "the setting store (") ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestHealthOfRefusingStore: health reports a store that refuses operations. A probe does not: a restart does not help.
func TestHealthOfRefusingStore(t *testing.T) {
	r, err := sharing(t, newDatabase(t), t.TempDir(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.serves(); err != nil {
		t.Errorf("control: %v", err)
	}
	r.store.Fault = func() error { return errors.New("it accepts no writes") }
	if err := r.serves(); err == nil || r.Probe(t.Context()) != nil {
		t.Errorf("got %v, a probe gives %v", err, r.Probe(t.Context()))
	}
	api, err := client.New(r.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.Health(t.Context()); err == nil || !strings.Contains(err.Error(), "it accepts no writes") {
		t.Errorf("health: %v", err)
	}
}
