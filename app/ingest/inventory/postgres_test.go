package inventory

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/internal/sqldb"
	"github.com/stagepost/stagepost/internal/sqldb/sqldbtest"
)

var losses = flag.Int("losses", 31, "TestConnectionLoss loses each connection of this number")

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// again opens an inventory that is closed at the end of the test.
func again(t *testing.T, at target) *Inventory {
	t.Helper()
	i, err := at("one")
	must(t, err)
	t.Cleanup(func() { _ = i.Close() })
	return i
}

// TestSameSchema: a file and PostgreSQL have the same tables, columns, keys and indexes, and no table is forgotten in a
// copy.
func TestSameSchema(t *testing.T) {
	file, pg := inFile.new(t), inPostgres.new(t)
	if n := sqldbtest.SameSchema(t, file.read.DB, pg.read.DB); n < 80 {
		t.Errorf("control: only %d facts were compared", n)
	}
	if shared.Version() != Schema() {
		t.Errorf("PostgreSQL has schema %d, and the file %d", shared.Version(), Schema())
	}
	all, err := rows(t.Context(), file.read, func(r *sql.Rows) (name string, err error) {
		err = r.Scan(&name)
		return name, err
	}, "SELECT name FROM sqlite_schema WHERE type = 'table' AND "+
		"name NOT LIKE 'sqlite_%' ORDER BY name")
	must(t, err)
	if got := slices.Sorted(slices.Values(tables.Names)); !slices.Equal(got, all) {
		t.Errorf("a copy has %q, want %q", got, all)
	}
}

// TestOneTransactionForAGroup: calls that wait are carried out by one transaction. The control is calls one by one.
func TestOneTransactionForAGroup(t *testing.T) {
	i, run := grouped(t, inPostgres)
	enter := func(n int) func() error {
		return func() error {
			name := fmt.Sprintf("ark:/1/%d", n)
			return i.EnterName(t.Context(), name, name, "owner", false, nil)
		}
	}
	transactions := func() (n int) {
		must(t, i.read.QueryRowContext(t.Context(), "SELECT sum(seq) FROM writers").Scan(&n))
		return n
	}
	before := transactions()
	for _, err := range run(enter(1), enter(2), enter(3), enter(4)) {
		must(t, err)
	}
	if n := transactions() - before; n != 1 {
		t.Errorf("%d transactions, want 1", n)
	}
	for n := range 3 {
		must(t, enter(10+n)())
	}
	if n := transactions() - before; n != 4 {
		t.Errorf("control: %d transactions", n)
	}
}

// TestServers lets three servers race for names, local ids, locks and versions.
func TestServers(t *testing.T) {
	at := inPostgres.target(t)
	var servers []*Inventory
	for range 3 {
		servers = append(servers, again(t, at))
	}
	const jobs, rounds = 4, 3 // of each server
	x := template(t)
	var mu sync.Mutex // guards all below
	arks, tokens := map[string]string{}, []int64{}
	byLocalID := map[string]map[string]bool{}
	acknowledged := map[string]bool{}
	ctx := t.Context()
	work := func(server, n int) error {
		i, job := servers[server], fmt.Sprintf("job_%d_%d", server, n)
		own, err := i.Name(ctx, Claim{Taker: taker(job, 1), Owner: "o", Template: x})
		if err != nil {
			return err
		}
		local := fmt.Sprintf("local %d", n) // all servers have a job with it
		same, err := i.Name(ctx, Claim{Taker: taker("same_"+job, 1), Owner: "o", Template: x,
			LocalIDs: []string{local}})
		if err != nil {
			return err
		}
		mu.Lock()
		if other := arks[own.ARK]; other != "" {
			t.Errorf("%s and %s have %s", other, job, own.ARK)
		}
		arks[own.ARK] = job
		if byLocalID[local] == nil {
			byLocalID[local] = map[string]bool{}
		}
		byLocalID[local][same.ARK] = true
		mu.Unlock()
		for round := range rounds {
			held, err := i.Take(ctx, taker(job, int64(round+1)), Want{Kind: ObjectLock, Name: "one"})
			var other *HeldError
			if errors.As(err, &other) {
				continue
			}
			if err != nil {
				return err
			}
			mu.Lock()
			tokens = append(tokens, held[0].Token)
			mu.Unlock()
			e := entry(own.ARK, fmt.Sprintf("%s_%d", job, round), round+1)
			e.Locks, e.LocalIDs = held, nil
			if err := i.Record(ctx, e, files(2, nil)); err != nil { // ends the lock
				return err
			}
			mu.Lock()
			acknowledged[e.Job] = true
			mu.Unlock()
		}
		return nil
	}
	var all sync.WaitGroup
	for server := range servers {
		for n := range jobs {
			all.Go(func() {
				if err := work(server, n); err != nil {
					t.Errorf("server %d: %v", server, err)
				}
			})
		}
	}
	all.Wait()
	for local, arks := range byLocalID {
		if len(arks) != 1 {
			t.Errorf("%s is %v", local, arks)
		}
	}
	// a lock is had by one at a time: a token is appended while the lock is held
	if !slices.IsSorted(tokens) || len(slices.Compact(slices.Clone(tokens))) != len(tokens) || len(tokens) == 0 {
		t.Errorf("tokens %v", tokens)
	}
	for job := range acknowledged {
		if _, _, err := servers[0].VersionOf(ctx, job); err != nil {
			t.Error(err)
		}
	}
	must(t, servers[0].Contradictions(ctx, func(text string) { t.Error(text) }))
	t.Logf("%d names, %d locks", len(arks), len(tokens))
}

// TestLockOfAnotherServer: a lock that another server took is found and respected, its loss too.
func TestLockOfAnotherServer(t *testing.T) {
	at := inPostgres.target(t)
	a, b := again(t, at), again(t, at)
	mine := object(t, a, taker("a", 1))
	var held *HeldError
	if _, err := b.Take(t.Context(), taker("b", 1), Want{Kind: ObjectLock, Name: mine.Name}); !errors.As(err, &held) {
		t.Errorf("got %v", err)
	}
	theirs := object(t, b, taker("b", 1, mine.Token))
	if err := a.Check(t.Context(), mine); !errors.Is(err, ErrStale) {
		t.Errorf("got %v", err)
	}
	must(t, a.Check(t.Context(), theirs))
}

// script calls each method that writes.
func script(ctx context.Context, t *testing.T, i *Inventory) error {
	x := template(t)
	ark := ""
	locks := []Lock{}
	c := Copy{Place: "storage", Version: 1}
	for _, f := range []func() error{
		func() error {
			n, err := i.Name(ctx, Claim{Taker: taker("j1", 1), Owner: "o", Template: x, LocalIDs: []string{"l1"},
				Depositor: "ann", Profile: "maps"})
			ark, c.ARK = n.ARK, n.ARK
			return err
		},
		func() error {
			n, err := i.Name(ctx, Claim{Taker: taker("j2", 1), Owner: "o", LocalIDs: []string{"l2"}})
			if err == nil {
				_, err = i.Settle(ctx, Claim{Taker: taker("j2", 1), Owner: "o", LocalIDs: []string{"l2"}}, n.Locks,
					"ark:/1/settled")
			}
			return err
		},
		func() (err error) {
			locks, err = i.Take(ctx, taker("j1", 1), Want{Kind: ObjectLock, Name: ark},
				Want{Kind: InventoryLock, Name: ark})
			return err
		},
		func() error { _, err := i.Release(ctx, locks[1]); return err },
		func() error {
			e := entry(ark, "j1", 1)
			e.Locks = locks[:1]
			return i.Record(ctx, e, files(3, nil))
		},
		func() error { return i.EnterLocation(ctx, "storage", "id", at) },
		func() error { return i.BeginCheck(ctx, "storage", at) },
		func() error {
			return i.EnterCheck(ctx, c, Result{At: at, Files: 3, Bytes: 6, Healed: []Heal{{"a", "b"}},
				Faults: []Fault{{Path: "producer/000", Kind: "changed", Since: at}}})
		},
		func() error { return i.EndCheck(ctx, "storage", at, "") },
		func() error { return i.EnterName(ctx, "j3", "ark:/1/lost", "o", false, []string{"l3"}) },
		func() error { return i.EnterLost(ctx, "j3", "ark:/1/lost", 1) },
		func() error { _, err := i.Take(ctx, taker("j4", 1), Want{ObjectLock, "left", "note"}); return err },
	} {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// answers are those of each method that reads.
func answers(t *testing.T, i *Inventory) map[string]any {
	t.Helper()
	ctx, all := t.Context(), map[string]any{}
	objects, err := i.Objects(ctx, Query{Permit: Permit{User: "ann", Profiles: []string{"maps", "x"}}})
	must(t, err)
	all["objects"] = objects
	ark := objects[0].ARK
	get := func(name string, v any, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		all[name] = v
	}
	due, err := i.Due(ctx, "storage", at, at)
	get("due", due, err)
	copies, err := i.CopiesOf(ctx, ark)
	get("copies", copies, err)
	sum, err := i.Checks(ctx, "storage", at)
	get("checks", sum, err)
	for _, q := range []api.FixityQuery{{Limit: 9}, {Limit: 9, Damaged: true}, {Limit: 9, Overdue: true},
		{Limit: 9, Location: "storage"}, {Limit: 9, Location: "other"}, {Limit: 9, After: "z"}} {
		f, err := i.FixityObjects(ctx, q, at)
		get(fmt.Sprintf("fixity of %+v", q), f, err)
	}
	faults, err := i.Faults(ctx, "storage", ark, 0)
	get("faults", faults, err)
	faults, err = i.Faults(ctx, "", "", 1)
	get("faults of version 1", faults, err)
	n, err := i.FaultCount(ctx)
	get("fault count", n, err)
	last, err := i.LastCheck(ctx, "storage")
	get("last check", last, err)
	kept, err := i.Kept(ctx, Kept{}, 10)
	get("kept", kept, err)
	dirs, err := i.Dirs(ctx)
	get("dirs", dirs, err)
	places, err := i.Locations(ctx)
	get("locations", places, err)
	names, err := i.NamesIn(ctx, ark, "storage")
	get("names in", names, err)
	name, err := i.NameOf(ctx, "j1")
	get("name of", name, err)
	lost, err := i.Lost(ctx, "j3")
	get("lost", lost, err)
	id, err := i.Location(ctx, "storage")
	get("location", id, err)
	jobs, err := i.JobsOf(ctx, ark)
	slices.Sort(jobs)
	get("jobs", jobs, err)
	jobs, err = i.NewestJobs(ctx, "l1")
	get("newest jobs", jobs, err)
	has, err := i.HasVersionsIn(ctx, "storage")
	get("has versions", has, err)
	has, err = i.Has(ctx, ark)
	get("has", has, err)
	fs, err := i.Files(ctx, ark, 0, "", 0)
	get("files", fs, err)
	locks, err := i.Locks(ctx)
	get("locks", locks, err)
	var texts []string
	get("contradictions", &texts, i.Contradictions(ctx, func(text string) { texts = append(texts, text) }))
	return all
}

// TestSameAnswers: what was entered in the same way is answered in the same way.
func TestSameAnswers(t *testing.T) {
	var got []map[string]any
	for _, open := range []opener{inFile, inPostgres} {
		i := again(t, open.target(t))
		must(t, script(t.Context(), t, i))
		got = append(got, answers(t, i))
	}
	if diff := cmp.Diff(got[0], got[1]); diff != "" {
		t.Errorf("(-SQLite +PostgreSQL):\n%s", diff)
	}
	if len(got[0]) < 25 {
		t.Errorf("control: %d answers", len(got[0]))
	}
}

// TestOrder: names are ordered by their bytes in a database that orders them as people do, and cursors skip none.
func TestOrder(t *testing.T) {
	inEach(t, func(t *testing.T, open opener) {
		i := open.new(t)
		want := []string{"ark:/1/B", "ark:/1/_", "ark:/1/a", "ark:/1/Ä"}
		for n, ark := range []string{want[3], want[1], want[0], want[2]} {
			must(t, i.Record(t.Context(), entry(ark, fmt.Sprint("j", n), 1), files(0, nil)))
		}
		var got []string
		for after := ""; ; {
			page, err := i.Objects(t.Context(), Query{After: after, Limit: 1})
			must(t, err)
			if len(page) == 0 {
				break
			}
			after = page[0].ARK
			got = append(got, after)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
	})
}

// TestConnectionLoss loses a connection at each of its calls in turn. What is there afterwards is what is there without
// a loss: the number of entries and the numbers of checks would show a call that was carried out twice.
func TestConnectionLoss(t *testing.T) {
	sqldbtest.Losses(t, *losses, func(at int) (all []string, calls int, cut string) {
		database := server.Database(t)
		proxy := server.Server(t).Proxy(t)
		i, err := OpenPostgres(t.Context(), proxy.Through(database), "one")
		must(t, err)
		defer func() { must(t, i.Close()) }()
		proxy.Arm(at)
		if err := script(t.Context(), t, i); err != nil {
			t.Errorf("call %d: %v", at, err)
		}
		calls, cut = proxy.Calls()
		proxy.Arm(0)
		return sqldbtest.Rows(t, i.read.DB, tables.Names, "locks.token"), calls, cut
	})
}

// TestMigrate copies an inventory to PostgreSQL, and from there to a file. All is there, and no token is given again.
func TestMigrate(t *testing.T) {
	ctx := t.Context()
	from := again(t, inFile.target(t))
	must(t, script(ctx, t, from))
	last := object(t, from, taker("newest", 1))
	if _, err := from.Release(ctx, last); err != nil { // the highest token is of no lock that is there
		t.Fatal(err)
	}
	want := sqldbtest.Rows(t, from.read.DB, tables.Names)
	path := filepath.Join(t.TempDir(), "inventory.db")
	toFile := func(installation string) (*Inventory, error) { return Open(ctx, path, installation) }
	inventories := []*Inventory{from, again(t, inPostgres.target(t)), again(t, toFile)}
	for n, to := range inventories[1:] {
		c, err := Migrate(ctx, inventories[n], to, false)
		must(t, err)
		if diff := cmp.Diff(want, sqldbtest.Rows(t, to.read.DB, tables.Names)); diff != "" {
			t.Errorf("copy %d: %s", n, diff)
		}
		if c.Rows["files"] != 3 || c.Digest == "" {
			t.Errorf("got %+v", c)
		}
		if _, err := Migrate(ctx, inventories[n], to, false); !errors.Is(err, sqldb.ErrNotEmpty) {
			t.Errorf("a target with rows: %v", err)
		}
		_, err = Migrate(ctx, inventories[n], to, true) // in place of the rows
		must(t, err)
		if diff := cmp.Diff(want, sqldbtest.Rows(t, to.read.DB, tables.Names)); diff != "" {
			t.Errorf("copy %d in place: %s", n, diff)
		}
		if diff := cmp.Diff(answers(t, from), answers(t, to)); diff != "" {
			t.Errorf("copy %d: %s", n, diff)
		}
	}
	for n, to := range inventories[1:] {
		if l := object(t, to, taker("later", 1)); l.Token <= last.Token {
			t.Errorf("copy %d gives token %d after %d", n, l.Token, last.Token)
		}
	}
	must(t, inventories[2].Close())
	reopened, err := toFile("one") // the file beside it is right
	must(t, err)
	must(t, reopened.Close())
	must(t, os.Remove(path))
	if _, err := toFile("one"); err == nil {
		t.Error("control: nothing is missed")
	}
	other, err := inFile.target(t)("two")
	must(t, err)
	defer other.Close()
	if _, err := Migrate(ctx, from, other, false); !errors.Is(err, sqldb.ErrForeign) {
		t.Errorf("another installation: %v", err)
	}
}

// TestStatements prepares every statement of the package in PostgreSQL, but those of a SQLite file alone, and runs the
// lists that are put together by a query.
func TestStatements(t *testing.T) {
	i := again(t, inPostgres.target(t))
	all, dynamic := sqldbtest.Statements(t)
	all = slices.DeleteFunc(all, func(s string) bool {
		return strings.Contains(s, "pragma_") || strings.Contains(s, ";") || // checks and schemas of files
			strings.HasSuffix(s, "p.checked ") // the beginning of those of Due
	})
	sqldbtest.Understood(t, i.read.DB, all)
	t.Logf("%d statements; put together when they run: %q", len(all), dynamic)
	if len(all) < 60 {
		t.Errorf("only %d statements were found", len(all))
	}
	sqldbtest.Control(t, i.read.DB, "INSERT INTO versions (ark, version) VALUES (?1, ?1)", "42P08")
	sqldbtest.Control(t, i.read.DB, "SELECT 1 FROM objects WHERE ? IS NULL", "42P18")
	for _, q := range []Query{{ARK: "a"}, {LocalID: "l", Owner: "o"}, {Digest: strings.Repeat("0", 64)},
		{Digest: strings.Repeat("0", 128), After: "a", Limit: 3},
		{Permit: Permit{User: "u", Profiles: []string{"p", "q"}}}} {
		if _, err := i.Objects(t.Context(), q); err != nil {
			t.Errorf("%+v: %v", q, err)
		}
	}
	for _, until := range []time.Time{time.Now(), {}} {
		if _, err := i.Due(t.Context(), "place", until, time.Now()); !errors.Is(err, ErrNotFound) {
			t.Errorf("due: %v", err)
		}
	}
}
