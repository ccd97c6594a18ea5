package inventory

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/stagepost/stagepost/format/noid"
	"github.com/stagepost/stagepost/job"
)

// grouped opens an inventory and lets calls wait for one transaction. run starts them and returns their errors.
func grouped(t *testing.T, open opener) (i *Inventory, run func(calls ...func() error) []error) {
	t.Helper()
	i = open.new(t)
	return i, func(calls ...func() error) []error {
		t.Helper()
		i.turn <- struct{}{} // a transaction is under way
		errs := make([]error, len(calls))
		var done sync.WaitGroup
		for n, do := range calls {
			done.Go(func() { errs[n] = do() })
			for end := time.Now().Add(time.Minute); ; runtime.Gosched() { // in order
				i.mu.Lock()
				waiting := len(i.calls)
				i.mu.Unlock()
				if waiting == n+1 {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("%d calls wait, want %d", waiting, n+1)
				}
			}
		}
		<-i.turn
		done.Wait()
		return errs
	}
}

// TestCallsShareACommit: calls that wait are carried out by one transaction with one sync. A call that is refused
// changes nothing, and the others are carried out. The control is such calls one after the other.
func TestCallsShareACommit(t *testing.T) {
	newLayer(t)
	i, run := grouped(t, inFile)
	take := func(name, job string) func() error {
		return func() error {
			_, err := i.Take(t.Context(), Taker{Job: job, Epoch: 1}, Want{Kind: ObjectLock, Name: name})
			return err
		}
	}
	var calls []func() error
	for n := range 10 {
		calls = append(calls, take(fmt.Sprintf("ark:/1/%d", n), fmt.Sprintf("job%d", n)))
	}
	calls = append(calls, func() error { // gets one lock before the other one is refused
		_, err := i.Take(t.Context(), Taker{Job: "late", Epoch: 1}, Want{Kind: ObjectLock, Name: "ark:/1/free"},
			Want{Kind: ObjectLock, Name: "ark:/1/3"})
		return err
	}, take("ark:/1/last", "last"), func() error {
		return i.EnterName(t.Context(), "a", "ark:/1/a", "owner", false, nil)
	})
	before := syncs.Load()
	errs := run(calls...)
	if n := syncs.Load() - before; n != 1 {
		t.Errorf("%d syncs, want 1", n)
	}
	var held *HeldError
	for n, err := range errs {
		if refused := n == 10; refused && !errors.As(err, &held) || !refused && err != nil {
			t.Errorf("call %d: %v", n, err)
		}
	}
	if locks, err := i.Locks(t.Context()); err != nil || len(locks) != 11 {
		t.Errorf("got %d locks, %v: want those of the 11 calls that were not refused", len(locks), err)
	}
	before = syncs.Load()
	for n := range 10 {
		name := fmt.Sprintf("ark:/2/%d", n)
		if err := i.EnterName(t.Context(), name, name, "owner", false, nil); err != nil {
			t.Error(err)
		}
	}
	if n := syncs.Load() - before; n != 10 {
		t.Errorf("control: %d syncs of 10 calls", n)
	}
}

// TestLocksAreNotSynced: a lock costs no sync, alone or with others, and what is entered afterwards is synced.
func TestLocksAreNotSynced(t *testing.T) {
	newLayer(t)
	i, run := grouped(t, inFile)
	take := func(n int) func() error {
		return func() error {
			_, err := i.Take(t.Context(), Taker{Job: fmt.Sprint(n), Epoch: 1},
				Want{Kind: ObjectLock, Name: fmt.Sprintf("ark:/1/%d", n)})
			return err
		}
	}
	for round := range 3 {
		before := syncs.Load()
		for n, err := range run(take(10*round), take(10*round+1)) {
			if err != nil {
				t.Errorf("call %d: %v", n, err)
			}
		}
		if err := take(10*round + 2)(); err != nil {
			t.Error(err)
		}
		if n := syncs.Load() - before; n != 0 {
			t.Errorf("%d syncs of locks", n)
		}
		name := fmt.Sprintf("ark:/2/%d", round)
		if err := i.EnterName(t.Context(), name, name, "owner", false, nil); err != nil {
			t.Error(err)
		}
		if n := syncs.Load() - before; n != 1 {
			t.Errorf("%d syncs of an entry after locks, want 1", n)
		}
	}
}

// TestNameIsOneTransaction: a name of a template that storage is asked about is entered with one sync. Names that calls
// are about to enter are given to no other call, and those that were not entered are free again for the next process.
func TestNameIsOneTransaction(t *testing.T) {
	newLayer(t)
	path := filepath.Join(t.TempDir(), "inventory.db")
	i, err := Open(t.Context(), path, "one")
	if err != nil {
		t.Fatal(err)
	}
	template, err := noid.Parse("99999/fk4.reedeedk")
	if err != nil {
		t.Fatal(err)
	}
	refused := errors.New("storage is not there")
	name := func(job string, stored error) (string, error) {
		n, err := i.Name(t.Context(), Claim{Taker: Taker{Job: job}, Owner: "owner", Template: template,
			Stored: func(context.Context, string) (bool, error) { return false, stored }})
		return n.ARK, err
	}
	if _, err := name("a", refused); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	before := syncs.Load()
	b, err := name("b", nil)
	if n := syncs.Load() - before; err != nil || n != 1 {
		t.Errorf("%d syncs, %v", n, err)
	}
	lost, err := i.mint(t.Context(), template.Seeded("one"))
	if err != nil {
		t.Fatal(err)
	}
	if c, err := name("c", nil); err != nil || c == b || c == lost.ark {
		t.Errorf("got %s after %s and %s, %v", c, b, lost.ark, err)
	}
	last, err := i.mint(t.Context(), template.Seeded("one"))
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Close(); err != nil {
		t.Fatal(err)
	}
	if i, err = Open(t.Context(), path, "one"); err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	if d, err := name("d", nil); err != nil || d != last.ark {
		t.Errorf("got %s, %v, want %s", d, err, last.ark)
	}
}

// TestNameThatAnotherProcessEntered: a candidate that is in use when it would be entered is not given, and the next one
// is asked about in storage, too.
func TestNameThatAnotherProcessEntered(t *testing.T) { inEach(t, testNameThatAnotherProcessEntered) }

func testNameThatAnotherProcessEntered(t *testing.T, open opener) {
	i, _ := grouped(t, open)
	template, err := noid.Parse("99999/fk4.reedeedk")
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	n, err := i.Name(t.Context(), Claim{Taker: Taker{Job: "a"}, Owner: "owner", Template: template,
		Stored: func(ctx context.Context, ark string) (bool, error) {
			if asked = append(asked, ark); len(asked) == 1 {
				return false, i.EnterName(ctx, "b", ark, "owner", true, nil)
			}
			return false, nil
		}})
	if err != nil || len(asked) != 2 || n.ARK != asked[1] || asked[0] == asked[1] {
		t.Errorf("got %s of %q, %v", n.ARK, asked, err)
	}
}

// TestCallsThatFailInAGroup: a statement that fails, or whose caller leaves, is repeated alone, and so are the others.
func TestCallsThatFailInAGroup(t *testing.T) { inEach(t, testCallsThatFailInAGroup) }

func testCallsThatFailInAGroup(t *testing.T, open opener) {
	i, run := grouped(t, open)
	leaves, leave := context.WithCancel(t.Context())
	runs := 0
	errs := run(
		func() error { return i.EnterName(t.Context(), "a", "ark:/1/a", "owner", false, nil) },
		func() error {
			return i.tx(t.Context(), func(tx *change) error {
				runs++
				_, err := tx.ExecContext(t.Context(), "INSERT INTO nothing VALUES (1)")
				return err
			})
		},
		func() error {
			return i.tx(leaves, func(tx *change) error {
				leave()
				_, err := tx.ExecContext(leaves, "DELETE FROM named")
				return err
			})
		},
		func() error { return i.EnterName(t.Context(), "b", "ark:/1/b", "owner", false, nil) },
	)
	if errs[0] != nil || errs[1] == nil || !errors.Is(errs[2], context.Canceled) || errs[3] != nil || runs != 2 {
		t.Errorf("got %q, %d runs", errs, runs)
	}
	if n, err := i.Names(t.Context()); err != nil || n != 2 {
		t.Errorf("got %d names, %v", n, err)
	}
}

// TestNamesInAGroup: jobs that get their identifiers in one transaction get different ones, and each is looked up in
// storage before it is given, also when the transaction had to be repeated.
func TestNamesInAGroup(t *testing.T) { inEach(t, testNamesInAGroup) }

func testNamesInAGroup(t *testing.T, open opener) {
	i, run := grouped(t, open)
	template, err := noid.Parse("99999/fk4.reedeedk")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	asked, got := map[string]bool{}, map[string]bool{}
	var calls []func() error
	for n := range 5 {
		calls = append(calls, func() error {
			name, err := i.Name(t.Context(), Claim{
				Taker: Taker{Job: fmt.Sprintf("job%d", n)}, Owner: "owner", Template: template,
				Stored: func(_ context.Context, ark string) (bool, error) {
					mu.Lock()
					defer mu.Unlock()
					asked[ark] = true
					return false, nil
				},
			})
			mu.Lock()
			defer mu.Unlock()
			got[name.ARK] = true
			return err
		})
	}
	calls = append(calls, func() error {
		return i.tx(t.Context(), func(tx *change) error {
			_, err := tx.ExecContext(t.Context(), "INSERT INTO nothing VALUES (1)")
			return err
		})
	})
	for n, err := range run(calls...) {
		if (err != nil) != (n == 5) {
			t.Errorf("call %d: %v", n, err)
		}
	}
	if len(got) != 5 {
		t.Errorf("got %v", got)
	}
	for ark := range got {
		if !asked[ark] {
			t.Errorf("%s was given and not looked up in storage", ark)
		}
	}
}

// TestFailedSyncOfAGroup: no call of a transaction that was not synced is confirmed, and nothing is written afterwards.
func TestFailedSyncOfAGroup(t *testing.T) {
	newLayer(t)
	i, run := grouped(t, inFile)
	enter := func(name string) func() error {
		return func() error { return i.EnterName(t.Context(), name, "ark:/1/"+name, "owner", false, nil) }
	}
	for _, err := range run(enter("a"), enter("b")) {
		if err != nil {
			t.Fatalf("control: %v", err)
		}
	}
	failingSync.Store(sqlite3.SQLITE_IOERR_FSYNC)
	for _, err := range run(enter("c"), enter("d"), enter("e")) {
		if err == nil {
			t.Error("a call that was not synced was confirmed")
		}
	}
	failingSync.Store(0)
	for _, err := range run(enter("f"), enter("g")) {
		if job.KindOf(err) != job.Unavailable {
			t.Errorf("got %v", err)
		}
	}
	if len(i.Dead()) != 1 {
		t.Error("Dead gives no error")
	}
}

// TestCallerLeaves: a caller that waits for its turn can leave, and then its call is not carried out.
func TestCallerLeaves(t *testing.T) { inEach(t, testCallerLeaves) }

func testCallerLeaves(t *testing.T, open opener) {
	i, _ := grouped(t, open)
	ctx, leave := context.WithCancel(t.Context())
	i.turn <- struct{}{}
	left := make(chan error)
	go func() { left <- i.EnterName(ctx, "a", "ark:/1/a", "owner", false, nil) }()
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-i.turn
	if err := i.EnterName(t.Context(), "b", "ark:/1/b", "owner", false, nil); err != nil {
		t.Fatal(err)
	}
	if n, err := i.Names(t.Context()); err != nil || n != 1 {
		t.Errorf("got %d names, %v", n, err)
	}
}
