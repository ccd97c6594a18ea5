package inventory

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/job"
)

func taker(job string, epoch int64, over ...int64) Taker {
	return Taker{Job: job, Epoch: epoch, At: at, Over: over}
}

// object takes the lock of an object that must be had.
func object(t *testing.T, i *Inventory, by Taker) Lock {
	t.Helper()
	got, err := i.Take(t.Context(), by, Want{Kind: ObjectLock, Name: "ark:/99999/x", Note: "storing"})
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}

func TestTake(t *testing.T) { inEach(t, testTake) }

func testTake(t *testing.T, open opener) {
	i := open.new(t)
	first := object(t, i, taker("a", 3))
	if diff := cmp.Diff(Lock{ObjectLock, "ark:/99999/x", "a", 3, at, first.Token, "storing"}, first); diff != "" {
		t.Error(diff)
	}
	if again := object(t, i, taker("a", 3)); again != first {
		t.Errorf("the same attempt has what it has; got %+v", again)
	}
	var held *HeldError
	if _, err := i.Take(t.Context(), taker("b", 1), Want{Kind: ObjectLock, Name: first.Name}); !errors.As(err, &held) ||
		held.Lock != first {
		t.Errorf("got %v", err)
	}
	if _, err := i.Take(t.Context(), taker("b", 1), Want{Kind: InventoryLock, Name: first.Name}); err != nil {
		t.Errorf("another kind is another lock: %v", err)
	}
	later := object(t, i, taker("a", 5))
	if later.Token <= first.Token || later.Since != first.Since {
		t.Errorf("a later attempt gets a higher token; got %+v", later)
	}
	if _, err := i.Take(t.Context(), taker("a", 4), Want{Kind: ObjectLock, Name: first.Name}); !errors.Is(err,
		ErrStale) {
		t.Errorf("an earlier attempt: got %v", err)
	}
	over := object(t, i, taker("b", 1, later.Token))
	if over.Job != "b" || over.Token <= later.Token {
		t.Errorf("got %+v", over)
	}
	if _, err := i.Take(t.Context(), taker("c", 1, later.Token),
		Want{Kind: ObjectLock, Name: first.Name}); !errors.As(err, &held) || held.Lock.Job != "b" {
		t.Errorf("what was to be taken over is gone already; got %v", err)
	}
}

func TestTakeIsAllOrNothing(t *testing.T) { inEach(t, testTakeIsAllOrNothing) }

func testTakeIsAllOrNothing(t *testing.T, open opener) {
	i := open.new(t)
	object(t, i, taker("a", 1))
	_, err := i.Take(t.Context(), taker("b", 1), Want{Kind: InventoryLock, Name: "ark:/99999/x"},
		Want{Kind: ObjectLock, Name: "ark:/99999/x"})
	var held *HeldError
	if !errors.As(err, &held) {
		t.Fatalf("got %v", err)
	}
	if of, err := i.LocksOf(t.Context(), "b"); err != nil || len(of) > 0 {
		t.Errorf("got %v, %v", of, err)
	}
}

// TestTokensNeverGoBack takes and ends a lock in every way, and opens the file again in between.
func TestTokensNeverGoBack(t *testing.T) { inEach(t, testTokensNeverGoBack) }

func testTokensNeverGoBack(t *testing.T, open opener) {
	at := open.target(t)
	last := int64(0)
	for range 3 {
		i, err := at("")
		if err != nil {
			t.Fatal(err)
		}
		for epoch := range int64(3) {
			l := object(t, i, taker("a", epoch+1))
			if l.Token <= last {
				t.Errorf("got token %d after %d", l.Token, last)
			}
			last = l.Token
			if epoch == 1 {
				continue // the next one takes it from itself
			}
			if gone, err := i.Release(t.Context(), l); err != nil || len(gone) != 1 {
				t.Errorf("got %v, %v", gone, err)
			}
		}
		if err := i.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReleaseOfALockThatSomebodyElseHas(t *testing.T) {
	inEach(t, testReleaseOfALockThatSomebodyElseHas)
}

func testReleaseOfALockThatSomebodyElseHas(t *testing.T, open opener) {
	i := open.new(t)
	mine := object(t, i, taker("a", 1))
	theirs := object(t, i, taker("b", 1, mine.Token))
	if gone, err := i.Release(t.Context(), mine); err != nil || len(gone) > 0 {
		t.Errorf("got %v, %v", gone, err)
	}
	if err := i.Check(t.Context(), theirs); err != nil {
		t.Error(err)
	}
	if err := i.Check(t.Context(), mine); !errors.Is(err, ErrStale) || job.KindOf(err) != job.Stale {
		t.Errorf("got %v", err)
	}
	all, err := i.Locks(t.Context())
	if diff := cmp.Diff([]Lock{theirs}, all); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// TestOneOfManyGetsTheLock lets many ask at once.
func TestOneOfManyGetsTheLock(t *testing.T) { inEach(t, testOneOfManyGetsTheLock) }

func testOneOfManyGetsTheLock(t *testing.T, open opener) {
	i := open.new(t)
	var all sync.WaitGroup
	got := make([]error, 20)
	for k := range got {
		all.Go(func() {
			_, got[k] = i.Take(context.Background(), taker(string(rune('a'+k)), 1), Want{Kind: ObjectLock, Name: "x"})
		})
	}
	all.Wait()
	n := 0
	for _, err := range got {
		if err == nil {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d have the lock: %v", n, got)
	}
}

func TestRecordUnderALostLock(t *testing.T) { inEach(t, testRecordUnderALostLock) }

func testRecordUnderALostLock(t *testing.T, open opener) {
	i := open.new(t)
	e := entry("ark:/99999/x", "a", 1)
	e.Locks = []Lock{object(t, i, taker("a", 1))}
	theirs := object(t, i, taker("b", 1, e.Locks[0].Token))
	if err := i.Record(t.Context(), e, files(2, nil)); !errors.Is(err, ErrStale) {
		t.Errorf("got %v", err)
	}
	if _, versions, _, err := i.Counts(t.Context()); err != nil || versions != 0 {
		t.Errorf("got %d versions, %v", versions, err)
	}
	e.Locks = []Lock{object(t, i, taker("a", 2, theirs.Token))} // control: with the lock
	if err := i.Record(t.Context(), e, files(2, nil)); err != nil {
		t.Error(err)
	}
	if left, err := i.Locks(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v", left, err)
	}
}

// old makes a file of schema 1 as the first release left it.
func old(t *testing.T, more string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "old.db")
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/schema1.sql")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(string(text) + more); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMigrateFromSchema1(t *testing.T) {
	path := old(t, `
		INSERT INTO objects VALUES ('ark:/99999/x', 'o', 'maps', 'p', 'T', 'C', 'D', 1, '2026-01-02T03:04:05Z', '2026-01-02T03:04:05Z');
		INSERT INTO versions VALUES ('ark:/99999/x', 1, 'ing_1', 'bat_1', 'ann', '', 0, 0, '2026-01-02T03:04:05Z');
		INSERT INTO local_ids VALUES ('o', 'l1', 'ark:/99999/x', 'ing_1');
		INSERT INTO local_ids VALUES ('o', 'l2', '', 'ing_2');
		INSERT INTO named VALUES ('ing_1', 'ark:/99999/x', 'o', 1);
		INSERT INTO writers VALUES ('ark:/99999/x', 'ing_3');`)
	i, err := Open(t.Context(), path, "")
	if err != nil {
		t.Fatal(err)
	}
	all, err := i.Locks(t.Context())
	if err != nil || len(all) != 2 || all[0].Kind != LocalIDLock || all[0].Name != "o/l2" || all[0].Job != "ing_2" ||
		all[1].Kind != ObjectLock || all[1].Job != "ing_3" || all[1].Since.IsZero() {
		t.Errorf("got %+v, %v", all, err)
	}
	if n := name(t, i, Claim{Taker: taker("ing_4", 1), Owner: "o", LocalIDs: []string{"l1"}}); n.ARK != "ark:/99999/x" {
		t.Errorf("got %+v", n)
	}
	if err := i.Permitted(t.Context(), Permit{User: "ann"}, "o", "", []string{"l1"}); err != nil {
		t.Errorf("the submitter of the first version is the depositor: %v", err)
	}
	if err := i.Permitted(t.Context(), Permit{User: "bob"}, "o", "", []string{"l1"}); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v", err)
	}
	var held *HeldError
	if _, err := i.Name(t.Context(), Claim{Taker: taker("ing_5", 1), Owner: "o",
		LocalIDs: []string{"l2"}}); !errors.As(err, &held) || held.Lock.Job != "ing_2" {
		t.Errorf("got %v", err)
	}
	if mine := object(t, i, taker("ing_3", 1)); mine.Token <= all[1].Token {
		t.Errorf("the holder of then gets it anew; got %+v", mine)
	}
	if err := i.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a second opening migrates nothing
		if i, err = Open(t.Context(), path, ""); err != nil {
			t.Fatal(err)
		}
		if objects, versions, minted, err := i.Counts(t.Context()); err != nil || objects != 1 || versions != 1 ||
			minted != 1 {
			t.Errorf("got %d, %d, %d, %v", objects, versions, minted, err)
		}
		if err := i.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOpenRefusesASchemaOfTheFuture(t *testing.T) {
	path := old(t, "PRAGMA user_version = 99;")
	if _, err := Open(t.Context(), path, ""); err == nil {
		t.Error("got no error")
	}
}
