package copies_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/copies"
)

// TestHoldsArePassed: the location with legal holds of its own gets and loses them, one that fails is an error and gets
// them later, each is sent once, and a deletion releases what the location has.
func TestHoldsArePassed(t *testing.T) {
	f := newFixture(t, "a", "b")
	must(t, f.fill(3))
	if _, err := f.store.Save(t.Context(), f.request()); err != nil {
		t.Fatal(err)
	}
	var sent []string
	var down error
	held := map[string]bool{}
	store, err := copies.New(copies.Options{Catalog: f.cat, Now: func() time.Time { return f.now },
		Targets: []copies.Target{{Name: "b", At: f.at["b"]}, {Name: "a", At: f.at["a"],
			Hold: func(_ context.Context, key string, on bool) error {
				if down != nil {
					return down
				}
				sent = append(sent, fmt.Sprint(key, on))
				if held[key] = on; !on {
					delete(held, key)
				}
				return nil
			}}},
	})
	must(t, err)
	if !store.HasHolds("a") || store.HasHolds("b") {
		t.Error("only a has legal holds")
	}
	must(t, store.PassHolds(t.Context()))
	if len(sent) > 0 {
		t.Errorf("control: without a hold %q was sent", sent)
	}
	files := len(f.files)
	must(t, f.cat.Hold(t.Context(), catalog.Hold{Job: job, Name: "court", By: "ann", Since: f.now}))
	down = errors.New("the service is down")
	err = store.PassHolds(t.Context())
	if err == nil || !strings.Contains(err.Error(), "legal hold in a: the service") {
		t.Errorf("got %v", err)
	}
	if n, err := f.cat.Held(t.Context(), job); err != nil || len(n) > 0 {
		t.Errorf("held %v, %v", n, err)
	}
	down = nil
	for range 2 {
		must(t, store.PassHolds(t.Context()))
	}
	n, err := f.cat.Held(t.Context(), job)
	if err != nil || n["a"] != files || len(held) != files || len(sent) != files {
		t.Errorf("%d files: held %v, %d by the service, %d sent, %v", files, n, len(held), len(sent), err)
	}
	must(t, f.cat.Release(t.Context(), job, "court", "ann", f.now))
	must(t, store.PassHolds(t.Context()))
	if n, _ := f.cat.Held(t.Context(), job); len(held) > 0 || len(n) > 0 || len(sent) != 2*files {
		t.Errorf("after the release: %v, %d by the service", n, len(held))
	}
	events, err := f.cat.Events(t.Context(), job, "", 10_000)
	must(t, err)
	count := 0
	for _, e := range events {
		if e.Type == "legal hold" {
			count++
		}
	}
	if count != 2*files {
		t.Errorf("%d events", count)
	}
}
