package copies_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/edge/storage"
)

// short is a location that has less of each file than was stored.
type short struct{ storage.Location }

func (s short) Stat(ctx context.Context, key string) (storage.Stat, error) {
	stat, err := s.Location.Stat(ctx, key)
	stat.Size--
	return stat, err
}

// TestSlowLocation: copies in a slow location are not read back, which would recall them; their sizes are compared.
// The control is the same location when it is fast.
func TestSlowLocation(t *testing.T) {
	for _, tier := range []storage.Tier{storage.Slow, storage.Fast} {
		f := newFixture(t, "a")
		must(t, f.fill(2))
		f.at["a"].tier = tier
		opened := 0
		f.at["a"].set(func(op, key string) error {
			if op == "open" && strings.Contains(key, "/") {
				opened++
			}
			return nil
		})
		_, err := f.store.Save(t.Context(), f.request())
		if must(t, err); (opened == 0) != (tier == storage.Slow) {
			t.Errorf("%s: %d copies were read", tier, opened)
		}
	}
	f := newFixture(t, "a")
	must(t, f.fill(2))
	f.at["a"].tier = storage.Slow
	f.at["a"].Location = short{f.at["a"].Location}
	if _, err := f.store.Save(t.Context(), f.request()); !errors.Is(err, storage.ErrDamage) {
		t.Errorf("got %v", err)
	}
}

// TestDiscardHeld: the copies of a failed archive stay while a legal hold covers them.
func TestDiscardHeld(t *testing.T) {
	f := newFixture(t, "a")
	must(t, f.fill(2))
	_, err := f.store.Save(t.Context(), f.request())
	must(t, err)
	must(t, f.cat.Hold(t.Context(), catalog.Hold{Job: job, Name: "court", By: "eve", Since: f.now}))
	if err := f.store.Discard(t.Context(), job, "it failed"); !errors.Is(err, catalog.ErrHeld) {
		t.Errorf("got %v", err)
	}
	f.stored("a", 2)
	must(t, f.cat.Release(t.Context(), job, "court", "eve", f.now))
	must(t, f.store.Discard(t.Context(), job, "it failed"))
	f.stored("a", 0)
}
