package custom_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/store/storetest"
)

// checked is a store that calls a function when an engine checks the open jobs of a kind before it registers it.
type checked struct {
	job.Store
	mu    sync.Mutex // guards check
	check func() error
}

func (c *checked) List(ctx context.Context, q job.Query) (job.Page, error) {
	c.mu.Lock()
	check := c.check
	c.mu.Unlock()
	if check != nil && len(q.Kinds) == 1 && q.Kinds[0] == "lab.check" && q.Ended != nil {
		if err := check(); err != nil {
			return job.Page{}, err
		}
	}
	return c.Store.List(ctx, q)
}

func (c *checked) on(check func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.check = check
}

var errSlow = job.Errorf(job.Unavailable, "list", "", "the disk is slow")

// TestFileOfANewLifecycle: the file of a new lifecycle is there before the kind is registered, so that no crash leaves
// jobs without their lifecycle. If the kind is refused, the file is removed.
func TestFileOfANewLifecycle(t *testing.T) {
	store, dir := &checked{Store: mem.New()}, t.TempDir()
	app, e, err := open(t, store, dir, exits(0, ""), "")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "lifecycles", "lab.check.yaml")
	var early error
	for _, refusal := range []error{errSlow, nil} {
		store.on(func() error {
			_, early = os.Stat(file)
			return refusal
		})
		_, err := app.Add(t.Context(), []byte(check), "ann", "")
		_, late := os.Stat(file)
		if early != nil || !errors.Is(err, refusal) || (e.Life("lab.check") == nil) != (refusal != nil) ||
			errors.Is(late, fs.ErrNotExist) != (refusal != nil) {
			t.Errorf("refusal %v: got %v, Life %v, file at first %v, then %v", refusal, err, e.Life("lab.check"), early,
				late)
		}
	}
}

// TestUnwritableLifecycle: a lifecycle whose file cannot be written is not registered, and the one of before stays. One
// whose file cannot be removed stays registered, and is removed when the file is gone.
func TestUnwritableLifecycle(t *testing.T) {
	dir := t.TempDir()
	app, e, err := open(t, mem.New(), dir, exits(0, ""), "")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "lifecycles", "lab.check.yaml")
	block := func(on bool) {
		t.Helper()
		err := os.RemoveAll(file)
		if on { // a directory can be neither replaced nor removed
			err = errors.Join(err, os.MkdirAll(filepath.Join(file, "full"), 0o700))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	block(true)
	if _, err := app.Add(t.Context(), []byte(check), "ann", ""); err == nil || e.Life("lab.check") != nil {
		t.Errorf("a new one: got %v", err)
	}
	block(false)
	if _, err := app.Add(t.Context(), []byte(check), "ann", ""); err != nil {
		t.Fatalf("control: %v", err)
	}
	hash := e.Life("lab.check").Hash()
	block(true)
	other := strings.Replace(check, "event: accept", "event: approve", 1)
	if _, err := app.Add(t.Context(), []byte(other), "ann", ""); err == nil || e.Life("lab.check").Hash() != hash {
		t.Errorf("another definition: got %v", err)
	}
	if _, err := app.Remove(t.Context(), "lab.check", "ann", ""); err == nil || e.Life("lab.check") == nil {
		t.Errorf("a removal: got %v", err)
	}
	block(false)
	if _, err := app.Remove(t.Context(), "lab.check", "ann", ""); err != nil || e.Life("lab.check") != nil {
		t.Errorf("a removal when the file is gone: got %v", err)
	}
}

// TestFollowTriesAgain: what a server cannot follow now is followed later, without another change of the directory.
func TestFollowTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, dir := mem.New(), t.TempDir()
		a, first, err := open(t, storetest.Several{Store: all}, dir, exits(0, ""), "")
		if err != nil {
			t.Fatal(err)
		}
		store := &checked{Store: storetest.Several{Store: all}}
		b, second, err := open(t, store, dir, exits(0, ""), "")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = a.Close(), b.Close() }()
		if _, err := a.Add(t.Context(), []byte(check), "ann", ""); err != nil {
			t.Fatal(err)
		}
		var tries atomic.Int64
		store.on(func() error {
			tries.Add(1)
			return errSlow
		})
		time.Sleep(time.Minute)
		if n := tries.Load(); second.Life("lab.check") != nil || n < 3 || n > 10 {
			t.Errorf("while the store does not answer: %v after %d tries", second.Life("lab.check"), n)
		}
		if err := b.Follow(t.Context()); err == nil || !strings.Contains(err.Error(), "the disk is slow") {
			t.Errorf("between two tries: got %v", err)
		}
		store.on(nil)
		time.Sleep(time.Minute)
		if got := second.Life("lab.check"); got == nil || got.Hash() != first.Life("lab.check").Hash() {
			t.Errorf("when the store answers: got %v", got)
		}
	})
}
