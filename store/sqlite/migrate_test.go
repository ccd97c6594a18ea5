package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/storetest"
)

// schemaOne builds a database of schema 1 in dir and fills it with what the store in from holds.
func schemaOne(t *testing.T, from, dir string) {
	t.Helper()
	text, err := migrations.ReadFile("schema/001.sql")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, database)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sql(t, dir, "CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied TEXT NOT NULL) STRICT;"+
		"INSERT INTO schema_version VALUES (1, 'long ago');"+string(text)+
		`;CREATE VIEW storetest_step AS SELECT * FROM jobs WHERE kind = 'storetest.step';
ATTACH '`+filepath.Join(from, database)+`' AS new;
INSERT INTO word SELECT * FROM new.word;
INSERT INTO move SELECT * FROM new.move;
INSERT INTO job_made SELECT n, id, kind, number, parent, owner, definition, created, key, spec FROM new.job_made;
INSERT INTO job_now SELECT n, state, last_ok, origin, outcome, ended, priority, grp, version, epoch, worker, until, starts, attempts, retries, due,
 deadline, expires, entered, changed, message, cause, children, seq, last, head FROM new.job_now;
INSERT INTO job_data SELECT * FROM new.job_data;
INSERT INTO job_key SELECT * FROM new.job_key;
INSERT INTO event SELECT e, job, back, seq, move, at, epoch, actor, cause, note FROM new.event;
INSERT INTO task SELECT job, name, kind, state, epoch, attempts, done, total, message, data, changed FROM new.task;
INSERT INTO hold SELECT scope, kind, state, grp, owner, job, who, why, since, until, 1 FROM new.hold;
INSERT INTO message SELECT m, key, job, topic, body, created, due, attempts, error, settled FROM new.message;
DETACH new`)
}

// contents is all that a store gives of its jobs.
type contents struct {
	Jobs     []job.Job
	History  map[job.ID][]job.Event
	Tasks    map[job.ID][]job.Task
	Messages map[job.ID][]job.Message
	Holds    []job.Hold
}

func contentsOf(t *testing.T, s *Store) (c contents) {
	t.Helper()
	ctx := t.Context()
	page, err := s.List(ctx, job.Query{Oldest: true, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	c = contents{page.Jobs, map[job.ID][]job.Event{}, map[job.ID][]job.Task{}, map[job.ID][]job.Message{}, nil}
	for _, j := range page.Jobs {
		var e1, e2, e3 error
		c.History[j.ID], e1 = s.History(ctx, j.ID, 0, 0)
		c.Tasks[j.ID], e2 = s.Tasks(ctx, j.ID)
		c.Messages[j.ID], e3 = job.MessagesOf(ctx, s, j.ID)
		if err := errors.Join(e1, e2, e3); err != nil {
			t.Fatal(err)
		}
	}
	if c.Holds, err = s.Holds(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}

// A database of schema 1 opens and has all that it had; then it can do what schema 2 is for.
func TestMigrateFromOne(t *testing.T) {
	from, dir := t.TempDir(), t.TempDir()
	s := openStore(t, from, Options{})
	workload(t, s, newDisk(t))
	want := contentsOf(t, s)
	closeStore(t, s)
	for i := range want.Jobs {
		want.Jobs[i].Words = "" // nor these
	}
	for id, list := range want.Messages {
		for i := range list {
			want.Messages[id][i].Tried = nil // schema 1 does not have these
		}
	}
	schemaOne(t, from, dir)
	for range 2 { // the second time there is nothing to do
		s = openStore(t, dir, Options{})
		if diff := cmp.Diff(want, contentsOf(t, s)); diff != "" {
			t.Errorf("after the migration (-want +got):\n%s", diff)
		}
		clean(t, s)
	}
	if got := texts(t, dir, "SELECT version FROM schema_version ORDER BY version", 1); !cmp.Equal(got,
		[]string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"}) {
		t.Errorf("schema versions %v", got)
	}
	fresh := "SELECT group_concat(name, ' ') FROM (SELECT name FROM sqlite_schema WHERE name NOT LIKE 'storetest%' " +
		"ORDER BY name)"
	if diff := cmp.Diff(texts(t, from, fresh, 1), texts(t, dir, fresh, 1)); diff != "" {
		t.Errorf("the schema differs from that of a new database (-new +migrated):\n%s", diff)
	}
	s = openStore(t, dir, Options{})
	j := want.Jobs[1]
	c, err := storetest.Transition(storetest.Step, j, "delete", lifecycle.Operator, testTime)
	if err != nil {
		t.Fatal(err)
	}
	c.Set.Tags, c.Set.Bytes = job.Tagged("queue=a"), new(int64)
	r, err := s.Commit(t.Context(),
		c, job.Change{Job: j.ID, Version: j.Version + 1, Purge: true, By: lifecycle.Operator, Actor: "olga",
			At: testTime})
	if err != nil || r[0].Err != nil || r[1].Err != nil {
		t.Fatal(err, r)
	}
	list, err := s.Audit(t.Context(), 0, 9)
	if err != nil || len(list) != 2 || list[1].Event != job.Purge {
		t.Errorf("audit log %+v, %v", list, err)
	}
	clean(t, s)
	if got := texts(t, dir, "SELECT count(*) FROM storetest_step", 1)[0]; got != "8" {
		t.Errorf("the kind's view has %s jobs, want 8", got)
	}
}

// A migration that cannot go through leaves the database as it was.
func TestMigrationFails(t *testing.T) {
	from, dir := t.TempDir(), t.TempDir()
	s := openStore(t, from, Options{})
	create(t, s, "tst_1")
	closeStore(t, s)
	schemaOne(t, from, dir)
	sql(t, dir, "CREATE TABLE given (what TEXT)") // in the way of the migration, half-way through it
	before := texts(t, dir, "SELECT sql FROM sqlite_schema ORDER BY name", 1)
	_, err := Open(dir, Options{})
	wantKind(t, "open", err, job.Internal)
	if err == nil || !strings.Contains(err.Error(), "schema 2") {
		t.Errorf("the error does not name the schema: %v", err)
	}
	if diff := cmp.Diff(before, texts(t, dir, "SELECT sql FROM sqlite_schema ORDER BY name", 1)); diff != "" {
		t.Errorf("the schema was changed (-before +after):\n%s", diff)
	}
	sql(t, dir, "DROP TABLE given")
	s = openStore(t, dir, Options{})
	if _, err := s.Get(t.Context(), "tst_1"); err != nil {
		t.Error(err)
	}
	clean(t, s)
}

// TestHoldsWithVersion: the holds of an earlier program have a version, and a checksum over it. They are read without
// both, from its database and from its log; one that is put again has a checksum. The control is a changed hold.
func TestHoldsWithVersion(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, database), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sql(t, dir, "CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied TEXT NOT NULL) STRICT")
	for v := 1; v < 10; v++ {
		text, err := migrations.ReadFile(fmt.Sprintf("schema/%03d.sql", v))
		if err != nil {
			t.Fatal(err)
		}
		sql(t, dir, string(text)+fmt.Sprintf(";INSERT INTO schema_version VALUES (%d, 'long ago')", v))
	}
	sql(t, dir, `INSERT INTO hold (scope, kind, state, grp, owner, job, who, why, since, version, sum)
 VALUES ('group=a', '', '', 'a', '', '', 'ann', 'disk', 5, 7, 1), ('group=b', '', '', 'b', '', '', 'ann', 'disk', 6, 8, 1)`)
	s := openStore(t, dir, Options{})
	if _, err := s.Hold(t.Context(), job.Hold{Scope: job.Scope{Group: "b"}, Who: "bob", Since: testTime}); err != nil {
		t.Fatal(err)
	}
	clean(t, s)
	c, err := conn.Open(filepath.Join(dir, database), conn.ReadWrite, "")
	if err != nil {
		t.Fatal(err)
	}
	logged, err := c.Prepare(putHold)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range []string{"group=c", "", "", "c", "", "", "ann", "disk"} {
		logged.Text(1+i, text)
	}
	logged.Int(9, 7)
	logged.Null(10)
	logged.Int(11, 9)
	logged.Text(12, "")
	logged.Int(13, 1)
	if err := logged.Run(); err != nil {
		t.Fatal(err)
	}
	logged.Close()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	got := texts(t, dir, "SELECT scope || ' ' || who || ' ' || (sum IS NULL) FROM hold ORDER BY scope", 1)
	if want := []string{"group=a ann 1", "group=b bob 0", "group=c ann 1"}; !cmp.Equal(got, want) {
		t.Errorf("holds %q, want %q", got, want)
	}
	s = openStore(t, dir, Options{})
	clean(t, s)
	sql(t, dir, "UPDATE hold SET who = 'eve' WHERE grp = 'b'")
	s = openStore(t, dir, Options{})
	defer closeStore(t, s)
	found := 0
	if _, _, err := s.Verify(t.Context(), "", lives, func(job.ID, error) { found++ }); err != nil || found != 1 {
		t.Errorf("control: %d faults, %v", found, err)
	}
}
