package inventory

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stagepost/stagepost/format/noid"
)

// counts counts the statements that stay prepared and that were asked for without being prepared.
func (s *statements) counts() (prepared, missed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all), len(s.missed)
}

// TestStatementsStayPrepared: what was run once is not compiled again, neither by readers nor in transactions.
func TestStatementsStayPrepared(t *testing.T) {
	i, err := Open(t.Context(), filepath.Join(t.TempDir(), "inventory.db"), "one")
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	pass := func(name string) (written, read int) {
		if err := i.Record(t.Context(), entry("ark:/1/"+name, name, 1), files(2, nil)); err != nil {
			t.Fatal(err)
		}
		if all, err := i.Objects(t.Context(), Query{ARK: "ark:/1/" + name}); err != nil || len(all) != 1 {
			t.Fatalf("control: %v, %v", all, err)
		}
		written, _ = i.known.counts()
		read, _ = i.read.known.counts()
		return written, read
	}
	pass("a")
	written, read := pass("b")
	if written < 5 || read < 3 {
		t.Errorf("%d statements of transactions and %d of readers are prepared", written, read)
	}
	if again, more := pass("c"); again != written || more != read {
		t.Errorf("a repetition prepared %d statements", again+more-written-read)
	}
	if _, missed := i.known.counts(); missed > 0 {
		t.Errorf("a repetition asked for %d statements that are not prepared", missed)
	}
}

// TestNoStatementReadsAllRows: what an object of an ingest needs of the inventory does not read every row of a table
// that grows with the objects.
func TestNoStatementReadsAllRows(t *testing.T) {
	i, err := Open(t.Context(), filepath.Join(t.TempDir(), "inventory.db"), "one")
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	template, err := noid.Parse("99999/fk4.reedeedk")
	must(t, err)
	ctx := t.Context()
	must(t, i.EnterLocation(ctx, "storage", "id", at))
	for n := range 3 { // a statement is prepared when it runs for the second time
		name := fmt.Sprint("j", n)
		named, err := i.Name(ctx, Claim{Taker: taker(name, 1), Owner: "o", LocalIDs: []string{"l-" + name},
			Template: template, Depositor: "ann", Profile: "maps"})
		must(t, err)
		locks, err := i.Take(ctx, taker(name, 1), Want{Kind: ObjectLock, Name: named.ARK})
		must(t, err)
		must(t, i.Check(ctx, locks...))
		e := entry(named.ARK, name, 1)
		e.Locks, e.Places = locks, append(e.Places, Place{Dir: fmt.Sprint("other", n), Name: "v1"})
		must(t, i.Record(ctx, e, files(2, nil)))
		_, err = i.Objects(ctx, Query{ARK: named.ARK})
		must(t, err)
		_, err = i.JobsOf(ctx, named.ARK)
		must(t, err)
		_, _, err = i.VersionOf(ctx, name)
		must(t, err)
		_, err = i.Location(ctx, "storage")
		must(t, err)
		dirs, err := i.Dirs(ctx)
		must(t, err)
		if want := append([]string{"other0", "other1", "other2"}[:n+1], "storage"); !slices.Equal(dirs, want) {
			t.Errorf("storage locations %q, want %q", dirs, want)
		}
	}
	few := regexp.MustCompile("^SCAN (CONSTANT ROW|meta|dirs)") // rows
	checked := 0
	for _, known := range []*statements{&i.known, &i.read.known} {
		for query := range known.all {
			for _, line := range plan(t, i, query) {
				if strings.HasPrefix(line, "SCAN ") && !few.MatchString(line) {
					t.Errorf("%s\n%s", query, line)
				}
			}
			checked++
		}
	}
	if checked < 25 {
		t.Errorf("%d statements", checked)
	}
	if control := plan(t, i, "SELECT DISTINCT place FROM places"); !strings.HasPrefix(control[0], "SCAN ") {
		t.Errorf("control: %q", control)
	}
}

// plan returns the steps of a statement.
func plan(t *testing.T, i *Inventory, query string) (steps []string) {
	t.Helper()
	args := make([]any, len(regexp.MustCompile(`\?`).FindAllString(query, -1)))
	all, err := i.read.DB.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	must(t, err)
	defer all.Close()
	for all.Next() {
		var id, parent, unused int
		var step string
		must(t, all.Scan(&id, &parent, &unused, &step))
		steps = append(steps, step)
	}
	must(t, all.Err())
	return steps
}

// TestStatementsAreBounded: lists that are asked for in many forms, by some at once, do not fill the memory.
func TestStatementsAreBounded(t *testing.T) {
	i, err := Open(t.Context(), filepath.Join(t.TempDir(), "inventory.db"), "one")
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for n := range 2 * mostStatements {
				var got int
				query := fmt.Sprintf("SELECT %d", n)
				if err := i.read.QueryRowContext(t.Context(), query).Scan(&got); err != nil || got != n {
					t.Errorf("%s gives %d, %v", query, got, err)
				}
			}
		})
	}
	readers.Wait()
	if n, missed := i.read.known.counts(); n+missed > mostStatements {
		t.Errorf("%d statements are kept", n+missed)
	}
}

// TestLocationIsReadOnce: the id of a storage location is read from a file once, and again after it has changed. In
// PostgreSQL another server may change it.
func TestLocationIsReadOnce(t *testing.T) {
	inEach(t, func(t *testing.T, open opener) {
		i := open.new(t)
		id := func(want string) {
			t.Helper()
			if got, err := i.Location(t.Context(), "storage"); err != nil || got != want {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		}
		change := func(id string) {
			must(t, i.tx(t.Context(), func(tx *change) error {
				_, err := tx.ExecContext(t.Context(), "UPDATE locations SET id = ?", id)
				return err
			}))
		}
		id("")
		must(t, i.EnterLocation(t.Context(), "storage", "first", at))
		id("first")
		change("of another process")
		if open.name == inFile.name {
			id("first")
		} else {
			id("of another process")
		}
		must(t, i.EnterLocation(t.Context(), "storage", "second", at))
		id("second")
		left, leave := context.WithCancel(t.Context())
		leave()
		if err := i.EnterLocation(left, "storage", "third", at); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		id("second")
	})
}

// TestEndedContextEndsTransaction: a caller that leaves while a transaction carries out its call gets its error at the
// next statement, and nothing of the call is written. The other call of the transaction is the control.
func TestEndedContextEndsTransaction(t *testing.T) {
	i, err := Open(t.Context(), filepath.Join(t.TempDir(), "inventory.db"), "one")
	must(t, err)
	defer i.Close()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	list := func(yield func(File, error) bool) {
		for f, err := range files(2, nil) {
			if !yield(f, err) {
				return
			}
			leave()
		}
	}
	leaves, stays := entry("ark:/1/leaves", "leaves", 1), entry("ark:/1/stays", "stays", 1)
	first := &call{ctx: ctx, done: make(chan struct{}),
		do: func(tx *change) error { return insert(ctx, tx, &leaves, list) }}
	second := &call{ctx: t.Context(), done: make(chan struct{}),
		do: func(tx *change) error { return insert(t.Context(), tx, &stays, files(2, nil)) }}
	i.carryOut([]*call{first, second})
	if !errors.Is(first.err, context.Canceled) || second.err != nil {
		t.Errorf("got %v, %v", first.err, second.err)
	}
	if _, _, err := i.VersionOf(t.Context(), "leaves"); !errors.Is(err, ErrNotFound) {
		t.Errorf("the version of the caller that left: %v", err)
	}
	if _, _, err := i.VersionOf(t.Context(), "stays"); err != nil {
		t.Errorf("control: %v", err)
	}
}
