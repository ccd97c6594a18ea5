package inventory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stagepost/stagepost/store/crash/power"
)

func TestMain(m *testing.M) {
	power.Main()
	code := m.Run()
	server.Stop()
	os.Exit(code)
}

// TestPowerCutAfterALock cuts the power after a lock was taken and nothing was synced. The entries that were confirmed
// are there, with every lock that was taken before them; the last lock is free again, and its token is not that of a
// lock that is there. The controls are the same calls where the last one is an entry, and where nothing is synced.
func TestPowerCutAfterALock(t *testing.T) {
	for _, c := range []struct {
		name   string
		last   bool     // an entry follows the last lock
		ignore []string // whose syncs do nothing
	}{{"lock", false, nil}, {"entry", true, nil}, {"no syncs", true, []string{"inventory.db*"}}} {
		t.Run(c.name, func(t *testing.T) {
			d := power.Mount(t, power.Options{Ignore: c.ignore})
			i, err := Open(t.Context(), filepath.Join(d.Dir, "inventory.db"), "one")
			if err != nil {
				t.Fatal(err)
			}
			defer i.Close()
			first := taken(t, i, "a", "ark:/1/a")
			if err := i.Record(t.Context(), entry("ark:/1/x", "x", 1), files(2, nil)); err != nil {
				t.Fatal(err)
			}
			second := taken(t, i, "b", "ark:/1/b")
			if c.last {
				if err := i.EnterName(t.Context(), "y", "ark:/1/y", "o", false, nil); err != nil {
					t.Fatal(err)
				}
			}
			later, err := Open(t.Context(), filepath.Join(d.Image(t), "inventory.db"), "one")
			if c.ignore != nil {
				if err == nil {
					t.Errorf("what was never synced is there: %v", later.Close())
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer later.Close()
			if l, found, err := later.LockOf(t.Context(), ObjectLock, first.Name); err != nil || !found || l != first {
				t.Errorf("a lock before an entry: %+v, %v", l, err)
			}
			if _, version, err := later.VersionOf(t.Context(), "x"); err != nil || version != 1 {
				t.Errorf("the entry: version %d, %v", version, err)
			}
			got, err := later.Take(t.Context(), taker("c", 1), Want{Kind: ObjectLock, Name: second.Name})
			var held *HeldError
			switch {
			case c.last && !errors.As(err, &held):
				t.Errorf("control: the lock is lost: %v", err)
			case !c.last && (err != nil || got[0].Token <= first.Token):
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func taken(t *testing.T, i *Inventory, job, name string) Lock {
	t.Helper()
	got, err := i.Take(t.Context(), taker(job, 1), Want{Kind: ObjectLock, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}

// TestPowerCutWithLocks cuts the power at each sync while jobs take locks and enter versions, with checkpoints of the
// database among them. Each image is an inventory with the entries that were confirmed by then. The control confirms
// entries as if they were locks.
func TestPowerCutWithLocks(t *testing.T) {
	if lost, images := enterAndCut(t, (*Inventory).tx); lost != "" || images < 20 {
		t.Errorf("%d images; %s", images, lost)
	}
	if lost, _ := enterAndCut(t, (*Inventory).volatile); lost == "" {
		t.Error("control: nothing is lost although entries are not synced")
	}
}

// enterAndCut enters names by a kind of transaction, and after each compares them with what a power cut leaves. It
// gives what was lost first, and at how many points the power was cut.
func enterAndCut(t *testing.T, enter func(*Inventory, context.Context, func(*change) error) error) (string, int) {
	t.Helper()
	d := power.Mount(t, power.Options{Every: true})
	i, err := Open(t.Context(), filepath.Join(d.Dir, "inventory.db"), "one")
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	if _, err := i.write.ExecContext(t.Context(), "PRAGMA wal_autocheckpoint = 8"); err != nil {
		t.Fatal(err)
	}
	names := func(image string) (int, error) {
		at, err := Open(t.Context(), filepath.Join(image, "inventory.db"), "one")
		if err != nil {
			return 0, err
		}
		n, err := at.Names(t.Context())
		return n, errors.Join(err, at.Close())
	}
	for n := range 12 {
		taken(t, i, fmt.Sprint("job", n), fmt.Sprint("ark:/1/", n))
		err := enter(i, t.Context(), func(tx *change) error {
			return keep(t.Context(), tx, &Claim{Taker: Taker{Job: fmt.Sprint("job", n)}, Owner: "o"},
				Name{ARK: fmt.Sprint("ark:/1/", n)})
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := names(d.Image(t)); got < n+1 || err != nil {
			return fmt.Sprintf("%d names were confirmed, %d are there: %v", n+1, got, err), 0
		}
	}
	images, before := d.Images(t), 0
	for _, image := range images {
		if _, err := os.Stat(filepath.Join(image, "inventory.db")); err != nil {
			continue // before there was one
		}
		got, err := names(image)
		if err != nil || got < before {
			return fmt.Sprintf("%s has %d names, and one before it had %d: %v", filepath.Base(image), got, before,
				err), len(images)
		}
		before = got
	}
	return "", len(images)
}
