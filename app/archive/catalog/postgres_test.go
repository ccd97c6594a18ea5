package catalog

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/internal/sqldb"
	"github.com/stagepost/stagepost/internal/sqldb/sqldbtest"
)

var losses = flag.Int("losses", 97, "TestConnectionLoss loses each connection of this number")

// random are the columns whose values differ from run to run, numbered those that skip the numbers of transactions that
// were rolled back.
var (
	random   = []string{"locations.id", "events.id"}
	numbered = []string{"artifacts.id", "copies.artifact", "held.artifact"}
)

// TestSameSchema: a file and PostgreSQL have the same tables, columns, keys and indexes, and no table is forgotten in a
// copy.
func TestSameSchema(t *testing.T) {
	file, pg := inFile.new(t, Options{}), inPostgres.new(t, Options{})
	if n := sqldbtest.SameSchema(t, file.read, pg.read); n < 150 {
		t.Errorf("control: only %d facts were compared", n)
	}
	if shared.Version() != Schema() {
		t.Errorf("PostgreSQL has schema %d, and the file %d", shared.Version(), Schema())
	}
	all, err := each(t.Context(), file.read, func(r row) (name string, err error) {
		err = r.Scan(&name)
		return name, err
	}, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")
	must(t, err)
	if got := slices.Sorted(slices.Values(tables.Names)); !slices.Equal(got, all) {
		t.Errorf("a copy has %q, want %q", got, all)
	}
}

// more enters what fill does not: an archive that is not deleted, and removals.
func more(ctx context.Context, c *Catalog) error {
	for _, f := range []func() error{
		func() error { return c.Begin(ctx, Archive{Job: "k1", Source: "moodle", Course: "7", Created: day}) },
		func() error { return c.PutArtifacts(ctx, "k1", []Artifact{artifact("bag.tar")}) },
		func() error { return c.Plan(ctx, "k1", []string{"a"}, day, day) },
		func() error {
			return c.PutPeople(ctx, "k1", []Person{{ID: "4", Username: "Bob", Name: "Bob"}},
				[]Content{{Activity: "q", Person: "4", Item: "1", Kind: "attempt"}})
		},
		func() error { return c.PlanVersion(ctx, "objects/main", "urn:2", "k1") },
		func() error {
			return c.PutVersion(ctx, Version{Location: "objects/main", Object: "urn:2", Name: "v1", Job: "k1",
				Stored: day, LastFixity: day, NextFixity: day})
		},
		func() error { return c.RequestCheck(ctx, "a", day) },
		func() error { return c.EndCheck(ctx, "a", "", day, day) },
		func() error { return c.Hold(ctx, Hold{Job: "k1", Name: "court", By: "eve", Since: day}) },
		func() error { return c.End(ctx, "k1", Complete, day) },
		func() error { _, err := c.BeginRemoval(ctx, "k1", "eve", "why", day); return err },
	} {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// answers are those of the methods that read.
func answers(t *testing.T, c *Catalog) map[string]any {
	t.Helper()
	ctx, all := t.Context(), map[string]any{}
	late := day.AddDate(9, 0, 0)
	get := func(name string, v any, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		all[name] = v
	}
	for _, q := range []Query{{}, {Source: "moodle", Course: "7", Activity: "quiz-1"}, {Before: "k1", Limit: 1},
		{Outcome: Deleted}} {
		v, err := c.Archives(ctx, q)
		get(fmt.Sprintf("archives %+v", q), v, err)
	}
	for _, q := range []api.FixityQuery{{Limit: 9}, {Limit: 9, Damaged: true}, {Limit: 9, Overdue: true},
		{Limit: 9, Location: "a"}, {Limit: 9, After: "j1"}} {
		v, err := c.FixityObjects(ctx, q, late)
		get(fmt.Sprintf("fixity %+v", q), v, err)
	}
	activities, err := c.Activities(ctx, "j1")
	get("activities", activities, err)
	attempts, err := c.Attempts(ctx, "moodle", "quiz-2", "g", Backoff{})
	get("attempts", attempts, err)
	waiting, err := c.Waiting(ctx, "moodle", Backoff{}, day)
	get("waiting", waiting, err)
	overview, err := c.Overview(ctx, "moodle", "7", []Current{{"quiz-1", "f1"}, {"x", ""}}, Backoff{})
	get("overview", overview, err)
	artifacts, err := c.ArtifactsOf(ctx, sums[0], 0)
	get("artifacts of", artifacts, err)
	artifacts, err = c.ArtifactsWith(ctx, "k1", sums[1])
	get("artifacts with", artifacts, err)
	copies, err := c.Copies(ctx, "j1", "")
	get("copies", copies, err)
	copies, err = c.CopiesBetween(ctx, "j1", "bag.tar", "bag.tar")
	get("copies between", copies, err)
	good, n, err := c.Standing(ctx, "k1")
	get("standing", good, err)
	get("artifacts", n, nil)
	for name, list := range map[string]func() ([]Copy, error){
		"behind":     func() ([]Copy, error) { return c.Behind(ctx, "a", late, 0) },
		"due":        func() ([]Copy, error) { return c.Due(ctx, "a", late, 0) },
		"faults":     func() ([]Copy, error) { return c.Faults(ctx, 0) },
		"leftover":   func() ([]Copy, error) { return c.Leftover(ctx, "a", 0) },
		"to hold":    func() ([]Copy, error) { return c.ToHold(ctx, "a", 0, 0) },
		"to release": func() ([]Copy, error) { return c.ToRelease(ctx, "a", 0, 0) },
	} {
		v, err := list()
		get(name, v, err)
	}
	check, err := c.LastCheck(ctx, "a")
	get("last check", check, err)
	states, err := c.LocationStates(ctx)
	get("states", states, err)
	count, err := c.DueCount(ctx, "a", late)
	get("due count", count, err)
	bad, err := c.FaultCount(ctx)
	get("fault count", bad, err)
	versions, err := c.DueVersions(ctx, "objects/main", late, 0)
	get("due versions", versions, err)
	versions, err = c.FaultyVersions(ctx, 0)
	get("faulty versions", versions, err)
	versions, err = c.VersionsOf(ctx, "j1")
	get("versions of", versions, err)
	faults, err := c.FaultsOf(ctx, &versions[0])
	get("faults of", faults, err)
	removals, err := c.Removals(ctx, 0)
	get("removals", removals, err)
	removing, err := c.Removing(ctx, "objects/main", "urn:2")
	get("removing", removing, err)
	other, err := c.OtherJobs(ctx, JobObject{Location: "objects/main", Object: "urn:2", Job: "x"})
	get("other jobs", other, err)
	held, err := c.Held(ctx, "k1")
	get("held", held, err)
	is, err := c.IsHeld(ctx, CopyKey{Artifact: 1, Location: "a", Generation: 1})
	get("is held", is, err)
	holds, err := c.Holds(ctx, "k1")
	get("holds", holds, err)
	deletions, err := c.Deletions(ctx, "", 0)
	get("deletions", deletions, err)
	stone, err := c.Tombstone(ctx, "j1")
	get("tombstone", stone, err)
	outlived, err := c.Outlived(ctx, late, 0)
	get("outlived", outlived, err)
	people, err := c.People(ctx, "bOB", 0)
	get("people", people, err)
	contents, err := c.ContentsOf(ctx, "moodle", "4")
	get("contents", contents, err)
	tokens, err := c.Tokens(ctx, "j1")
	get("tokens", tokens, err)
	token, err := c.Token(ctx, "j1/bag.tar", 0)
	get("token", token, err)
	tokens, err = c.Expiring(ctx, late, 0)
	get("expiring", tokens, err)
	events, err := c.Events(ctx, "j1", "", 0)
	get("events", events, err)
	return all
}

// TestSameAnswers: what was entered in the same way is answered in the same way, also by a copy in PostgreSQL and by a
// copy of that in a file. No number is given again.
func TestSameAnswers(t *testing.T) {
	ctx := t.Context()
	toFile := openAt(t, filepath.Join(t.TempDir(), Name), Options{Installation: "one"})
	file, pg, copied := inFile.new(t, Options{Installation: "one"}), inPostgres.new(t, Options{}),
		inPostgres.new(t, Options{Installation: "one"})
	for _, c := range []*Catalog{file, pg} {
		must(t, fill(ctx, c, "j1"))
		must(t, more(ctx, c))
	}
	want := answers(t, file)
	if diff := cmp.Diff(want, answers(t, pg)); diff != "" {
		t.Errorf("(-SQLite +PostgreSQL):\n%s", diff)
	}
	if len(want) < 40 {
		t.Errorf("control: %d answers", len(want))
	}
	for n, pair := range [][2]*Catalog{{file, copied}, {copied, toFile}} {
		c, err := Migrate(ctx, pair[0], pair[1], false)
		must(t, err)
		if c.Rows["archives"] != 2 {
			t.Errorf("got %+v", c)
		}
		if diff := cmp.Diff(sqldbtest.Rows(t, file.read, tables.Names),
			sqldbtest.Rows(t, pair[1].read, tables.Names)); diff != "" {
			t.Errorf("copy %d: %s", n, diff)
		}
		if diff := cmp.Diff(want, answers(t, pair[1])); diff != "" {
			t.Errorf("copy %d: %s", n, diff)
		}
		if _, err := Migrate(ctx, pair[0], pair[1], false); !errors.Is(err, sqldb.ErrNotEmpty) {
			t.Errorf("a target with rows: %v", err)
		}
		_, err = Migrate(ctx, pair[0], pair[1], true) // in place of the rows
		must(t, err)
		if diff := cmp.Diff(sqldbtest.Rows(t, file.read, tables.Names),
			sqldbtest.Rows(t, pair[1].read, tables.Names)); diff != "" {
			t.Errorf("copy %d in place: %s", n, diff)
		}
	}
	for _, c := range []*Catalog{copied, toFile} {
		must(t, c.Begin(ctx, Archive{Job: "l", Source: "s", Created: day}))
		must(t, c.PutArtifacts(ctx, "l", []Artifact{artifact("new")}))
		if a, err := c.Artifact(ctx, "l", "new"); err != nil || a.ID != 4 {
			t.Errorf("the next artifact has the number %d, %v", a.ID, err)
		}
	}
}

// TestServers lets three servers make archives of one source, and of the same jobs, at once.
func TestServers(t *testing.T) {
	at := inPostgres.target(t)
	var servers []*Catalog
	for range 3 {
		servers = append(servers, openPlace(t, at, Options{}))
	}
	ctx := t.Context()
	ids := make([]string, len(servers))
	var all sync.WaitGroup
	for n, c := range servers {
		all.Go(func() {
			l, err := c.Location(ctx, "shared", day)
			if err != nil {
				t.Error(err)
			}
			ids[n] = l.ID
			for _, job := range []string{"same", fmt.Sprint("own", n)} {
				err := errors.Join(c.Begin(ctx, Archive{Job: job, Source: "s", Course: "7", Created: day}),
					c.PutArtifacts(ctx, job, []Artifact{artifact("a"), artifact("b")}),
					c.Plan(ctx, job, []string{"x"}, time.Time{}, day),
					c.PutEvent(ctx, Event{Key: fmt.Sprint("event", n, job), Job: job, At: day}))
				if err != nil {
					t.Errorf("server %d: %v", n, err)
				}
			}
		})
	}
	all.Wait()
	if ids[0] == "" || ids[0] != ids[1] || ids[1] != ids[2] {
		t.Errorf("one location has the ids %q", ids)
	}
	for job, events := range map[string]int{"same": 3, "own0": 1, "own1": 1, "own2": 1} {
		copies, err := servers[0].Copies(ctx, job, "")
		must(t, err)
		e, err := servers[1].Events(ctx, job, "", 0)
		if must(t, err); len(copies) != 2 || len(e) != events {
			t.Errorf("%s has %d copies and %d events", job, len(copies), len(e))
		}
	}
	// two persons on two servers cannot decide differently
	must(t, servers[0].End(ctx, "same", Complete, day))
	_, err := servers[0].RequestDeletion(ctx, Deletion{ID: "d", Job: "same", RequestedBy: "eve", Requested: day})
	must(t, err)
	decided := make([]error, 2)
	for n := range decided {
		all.Go(func() { _, decided[n] = servers[n].DecideDeletion(ctx, "d", fmt.Sprint("bob", n), true, day) })
	}
	all.Wait()
	if (decided[0] == nil) == (decided[1] == nil) || !errors.Is(errors.Join(decided...), ErrConflict) {
		t.Errorf("got %v", decided)
	}
}

// TestEndOfAnotherCheck: a check that another server began since is not ended.
func TestEndOfAnotherCheck(t *testing.T) {
	inEach(t, func(t *testing.T, open opener) {
		at := open.target(t)
		var other *Catalog
		c := openPlace(t, at, Options{Before: func(write string) error {
			if write != "end check" || other == nil {
				return nil
			}
			return errors.Join(other.EndCheck(t.Context(), "a", "gone", day, day),
				other.RequestCheck(t.Context(), "a", day.Add(time.Hour)))
		}})
		must(t, c.RequestCheck(t.Context(), "a", day))
		if open.name == inPostgres.name {
			other = openPlace(t, at, Options{})
		}
		must(t, c.EndCheck(t.Context(), "a", "failed", day.Add(time.Minute), day.Add(time.Minute)))
		k, err := c.LastCheck(t.Context(), "a")
		if must(t, err); k.Ended.IsZero() != (other != nil) {
			t.Errorf("got %+v", k)
		}
	})
}

// TestConnectionLoss loses a connection at each of its calls in turn. What is there afterwards is what is there without
// a loss: the number of writes and of attempts would show one that was carried out twice.
func TestConnectionLoss(t *testing.T) {
	sqldbtest.Losses(t, *losses, func(at int) (all []string, calls int, cut string) {
		database := server.Database(t)
		proxy := server.Server(t).Proxy(t)
		c, err := OpenPostgres(t.Context(), proxy.Through(database), Options{Installation: "one"})
		must(t, err)
		defer func() { must(t, c.Close()) }()
		proxy.Arm(at)
		if err := fill(t.Context(), c, "j1"); err != nil {
			t.Errorf("call %d: %v", at, err)
		}
		calls, cut = proxy.Calls()
		proxy.Arm(0)
		return sqldbtest.Rows(t, c.read, tables.Names, append(numbered, random...)...), calls, cut
	})
}

// TestStatements prepares every statement of the package in PostgreSQL.
func TestStatements(t *testing.T) {
	c := inPostgres.new(t, Options{})
	all, dynamic := sqldbtest.Statements(t)
	sqldbtest.Understood(t, c.read, all)
	t.Logf("%d statements; put together when they run: %q", len(all), dynamic)
	if len(all) < 110 {
		t.Errorf("only %d statements were found", len(all))
	}
	sqldbtest.Control(t, c.read, "INSERT INTO checks (location, copies) VALUES (?1, ?1)", "42P08")
	sqldbtest.Control(t, c.read, "SELECT 1 FROM archives WHERE ? IS NULL", "42P18")
}
