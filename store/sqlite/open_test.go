package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/storetest"
)

// sql runs statements on a database that no store has open.
func sql(t testing.TB, dir, text string) {
	t.Helper()
	c, err := conn.Open(filepath.Join(dir, database), conn.ReadWrite, "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Exec(text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// texts gives the rows of a query, columns joined by "|".
func texts(t testing.TB, dir, query string, columns int) (found []string) {
	t.Helper()
	c, err := conn.Open(filepath.Join(dir, database), conn.ReadOnly, "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = each(c, query, func(s *conn.Stmt) error {
		var row []string
		for i := range columns {
			row = append(row, s.GetText(i))
		}
		found = append(found, strings.Join(row, "|"))
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return found
}

// A directory belongs to one store at a time; the second gets the owner in its error, and the lock ends with the owner.
func TestOwner(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Options{Address: "localhost:8080"})
	_, err := Open(dir, Options{})
	wantKind(t, "a second opener", err, job.Unavailable)
	for _, part := range []string{fmt.Sprint("pid=", os.Getpid()), "address=localhost:8080", "start=", "host="} {
		if !strings.Contains(fmt.Sprint(err), part) {
			t.Errorf("the error does not name %s: %v", part, err)
		}
	}
	closeStore(t, s)
	if err := os.WriteFile(filepath.Join(dir, "owner"), []byte("pid=1 of a process that was killed"),
		0o600); err != nil {
		t.Fatal(err)
	}
	closeStore(t, openStore(t, dir, Options{}))
}

// TestOnLock: the function is called with the lock and before the database is opened, and its error ends Open without
// a lock.
func TestOnLock(t *testing.T) {
	dir, calls := t.TempDir(), 0
	refused := errors.New("the address is in use")
	_, err := Open(dir, Options{OnLock: func() (string, error) {
		calls++
		if info, err := os.Stat(filepath.Join(dir, database)); err != nil || info.Size() > 0 {
			t.Errorf("the database is open already: %v, %v", info, err)
		}
		var used *InUse
		_, err := Open(dir, Options{OnLock: func() (string, error) { calls++; return "", nil }})
		if !errors.As(err, &used) || used.Process["address"] != "" {
			t.Errorf("a second opener: %v, %v", err, used)
		}
		return "", refused
	}})
	if err != refused || calls != 1 {
		t.Errorf("got %v after %d calls", err, calls)
	}
	s := openStore(t, dir, Options{OnLock: func() (string, error) { return "http://127.0.0.1:9", nil }})
	defer closeStore(t, s)
	var used *InUse
	if _, err := Open(dir, Options{}); !errors.As(err, &used) || used.Dir != dir ||
		used.Process["address"] != "http://127.0.0.1:9" || used.Process["pid"] != fmt.Sprint(os.Getpid()) {
		t.Errorf("a second opener: %v, %v", err, used)
	}
}

// A missing database where there was one is refused; a new directory is not.
func TestMissingDatabase(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	closeStore(t, openStore(t, dir, Options{}))
	for name, want := range map[string]os.FileMode{"": 0o700, database: 0o600, "owner": 0o600, marker: 0o600,
		headName: 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%q has mode %v (%v), want %v", name, info.Mode().Perm(), err, want)
		}
	}
	file := filepath.Join(dir, database)
	if err := os.Truncate(file, 0); err != nil {
		t.Fatal(err)
	}
	_, err := Open(dir, Options{})
	wantKind(t, "an empty database", err, job.Internal)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir, Options{})
	wantKind(t, "no database", err, job.Internal)
	for _, name := range []string{marker, headName, logName} {
		_, err = Open(dir, Options{})
		wantKind(t, "a trace of a database", err, job.Internal)
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	closeStore(t, openStore(t, dir, Options{}))
}

func TestForeignDatabases(t *testing.T) {
	dir := t.TempDir()
	closeStore(t, openStore(t, dir, Options{}))
	sql(t, dir, fmt.Sprintf("INSERT INTO schema_version VALUES (%d, 'later')", schemaVersion+1))
	_, err := Open(dir, Options{})
	wantKind(t, "a newer schema", err, job.Internal)
	if err := os.WriteFile(filepath.Join(dir, database), []byte(strings.Repeat("no database ", 1000)),
		0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir, Options{})
	wantKind(t, "not a database", err, job.Internal)
}

// After Close every call returns an error at once.
func TestClosed(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	closeStore(t, s)
	_, err := s.Create(t.Context(), made("tst_1"))
	wantKind(t, "create", err, job.Unavailable)
	_, err = s.Get(t.Context(), "tst_1")
	wantKind(t, "get", err, job.Unavailable)
	_, err = s.Count(t.Context())
	wantKind(t, "count", err, job.Unavailable)
}

// A caller that leaves before the loop has taken its operation has done nothing.
func TestCallerLeaves(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	gate, inside, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		_ = s.do(context.Background(), true, nothing(func() { close(inside); <-gate }))
		close(left)
	}()
	<-inside
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Create(ctx, made("tst_1"))
	wantKind(t, "create with a context that has ended", err, job.Unavailable)
	close(gate)
	<-left
	_, err = s.Get(t.Context(), "tst_1")
	wantKind(t, "the job", err, job.NotFound)
}

// What users see at the sqlite3 prompt.
func TestViews(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Options{})
	long := strings.Repeat("long ", 30)
	c := newJob(storetest.Step, "tst_1", testTime, func(j *job.Job) { j.Group, j.Owner, j.Key = "maps", long, "k" })
	c.Job.Tags, c.Job.Bytes = job.Tagged("queue=a", "place=main"), 12
	if _, err := s.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	change := job.Change{
		Job: "tst_1", Version: 1, Event: "hold", To: c.Job.Position, By: 4, Actor: "alice", Note: "why not",
		At:     testTime,
		Tasks:  []job.Task{{Name: "part", Kind: "k", State: "Done", Changed: testTime}},
		Outbox: []job.Message{{Key: "m", Job: "tst_1", Topic: "mail", Created: testTime, Due: testTime}},
	}
	change.To.State = "Parked"
	if results, err := s.Commit(t.Context(), change); err != nil || results[0].Err != nil {
		t.Fatal(err, results)
	}
	if _, err := s.Hold(t.Context(), job.Hold{Who: "alice", Why: "audit", Since: testTime}); err != nil {
		t.Fatal(err)
	}
	tried := job.Message{Key: "m", Due: testTime, Tried: []job.Attempt{{At: testTime, Took: 5, Error: "busy"}}}
	if err := s.Settle(t.Context(), tried); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	for query, want := range map[string]string{
		`SELECT id, kind, state, "group", owner, key, created, seq FROM jobs`:                                 "tst_1|storetest.step|Parked|maps|" + long + "|k|2026-03-04T05:06:07.000Z|2",
		"SELECT id FROM storetest_step":                                                                       "tst_1",
		`SELECT job, seq, event, "from", "to", "by", actor, note FROM history WHERE seq = 2`:                  "tst_1|2|hold|Waiting|Parked|operator|alice|why not",
		"SELECT job, name, kind, state, changed FROM tasks":                                                   "tst_1|part|k|Done|2026-03-04T05:06:07.000Z",
		"SELECT scope, who, why, since, until FROM holds":                                                     "everything|alice|audit|2026-03-04T05:06:07.000Z|",
		"SELECT number, key, job, topic, settled, tried FROM outbox":                                          `1|m|tst_1|mail|pending|[{"at":"2026-03-04T05:06:07Z","took_ms":5,"error":"busy"}]`,
		"SELECT id, tags, bytes, tags ->> 1 FROM jobs":                                                        `tst_1|["place=main","queue=a"]|12|queue=a`,
		`SELECT number, at, "by", who, event, job, kind, "from", "to", note FROM audit_list WHERE number = 1`: "1|2026-03-04T05:06:07.000Z|operator|alice|hold|tst_1|storetest.step|Waiting|Parked|why not",
		"SELECT number, event, object, note FROM audit_list WHERE number = 2":                                 "2|hold|everything|audit",
	} {
		columns := strings.Count(strings.Split(query, "FROM")[0], ",") + 1
		if got := texts(t, dir, query, columns); len(got) != 1 || got[0] != want {
			t.Errorf("%s\n got %q\nwant %q", query, got, want)
		}
	}
}

// TestAbandonedInTheDatabase: the text of the result in the database, and so the checksum of its row, stays the one of
// databases that exist.
func TestAbandonedInTheDatabase(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Options{})
	c := newJob(storetest.Step, "tst_1", testTime, func(*job.Job) {})
	c.Outbox = []job.Message{{Key: "m", Job: "tst_1", Topic: "mail", Created: testTime, Due: testTime}}
	if _, err := s.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	lost := job.Message{Key: "m", Settled: job.Abandoned, Error: "no mailbox"}
	if err := s.Settle(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	if got := texts(t, dir, "SELECT settled FROM message", 1); len(got) != 1 || got[0] != "given-up" {
		t.Errorf("the database has %q", got)
	}
	abandoned := job.Abandoned
	s = openStore(t, dir, Options{})
	got, err := s.Messages(t.Context(), job.MessageQuery{Settled: &abandoned})
	if err != nil || len(got) != 1 || got[0].Settled != job.Abandoned {
		t.Errorf("got %v, %v", got, err)
	}
	if r, err := s.Fsck(t.Context(), lives, false); err != nil || !r.Clean() {
		t.Errorf("fsck: %+v, %v", r, err)
	}
}

func TestViewName(t *testing.T) {
	for kind, want := range map[job.Kind]string{
		"ingest.job": "ingest_job", "SQLite_x": "kind_SQLite_x", `a"b'c`: "a_b_c", "übung": "_bung",
	} {
		if got := viewName(kind); got != want {
			t.Errorf("%q: got %q, want %q", kind, got, want)
		}
	}
	s := openStore(t, t.TempDir(), Options{})
	for i, kind := range []job.Kind{`a"b'c; DROP TABLE word`, "jobs", "sqlite_master", ""} {
		c := made(fmt.Sprint("tst_", i))
		c.Job.Kind = kind
		if _, err := s.Create(t.Context(), c); err != nil {
			t.Errorf("a job of kind %q: %v", kind, err)
		}
	}
}

// TestOpenNeedsADirectory checks the error for an empty name.
func TestOpenNeedsADirectory(t *testing.T) {
	_, err := Open("", Options{})
	if job.KindOf(err) != job.Invalid || !strings.Contains(err.Error(), "needs a directory") {
		t.Errorf("got %v", err)
	}
}
