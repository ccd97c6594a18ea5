package access

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/engine/enginetest"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// shelf is a holding in a directory: two files of one version.
type shelf struct {
	dir string
	*enginetest.Fuse
}

var shelved = []string{"producer/a", "producer/b"}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	s := &shelf{t.TempDir(), enginetest.NewFuse(0, false)}
	for _, name := range shelved {
		if err := os.MkdirAll(filepath.Join(s.dir, "producer"), 0o700); err != nil {
			t.Fatal(err)
		}
		rewriteNew(t, filepath.Join(s.dir, name), "the content of "+name)
	}
	return s
}

func (s *shelf) Permit(user string) ingest.Permit { return ingest.Permit{User: user} }

func (s *shelf) Objects(context.Context, ingest.ObjectQuery) (all []ingest.Object, err error) {
	s.Call(func() {
		v := ingest.Version{Number: 1, Created: made, Places: []ingest.Place{{Dir: "first", Name: "v1"}}}
		for _, name := range shelved {
			v.Files++
			v.Bytes += int64(len("the content of " + name))
		}
		all = []ingest.Object{{ARK: "ark:/99999/fk4shelf", Collection: "maps", Head: 1, Versions: []ingest.Version{v}}}
	})
	return all, nil
}

func (s *shelf) Files(_ context.Context, _ string, _ int, after string, _ int) (all []ingest.StoredFile, err error) {
	s.Call(func() {
		for _, name := range shelved {
			text := []byte("the content of " + name)
			s256, s512 := sha256.Sum256(text), sha512.Sum512(text)
			if name > after {
				all = append(all, ingest.StoredFile{
					Path: name, Size: int64(len(text)), SHA256: hex.EncodeToString(s256[:]),
					SHA512: hex.EncodeToString(s512[:]),
				})
			}
		}
	})
	return all, nil
}

func (s *shelf) Content(context.Context, string, ingest.Place) (map[string]string, error) {
	return map[string]string{shelved[0]: shelved[0], shelved[1]: shelved[1]}, nil
}

func (s *shelf) OpenContent(_, path string) (f *os.File, err error) {
	s.Call(func() { f, err = os.Open(filepath.Join(s.dir, path)) })
	return f, err
}

var wanted = Request{Object: "ark:/99999/fk4shelf", Format: FormatBagTAR, Key: "k", Requester: "ann"}

// live runs the application until the package is ready or the process crashed.
func live(t *testing.T, store job.Store, f *enginetest.Fuse, dir string, holdings *shelf) {
	t.Helper()
	a := openAccess(t, dir, &shelf{holdings.dir, f}, nil)
	crashing := &enginetest.Crashing{Store: store, Fuse: f}
	e, err := engine.New(crashing, a.Works(), engine.Options{Sweep: time.Hour, Grace: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, kill := context.WithCancel(context.Background())
	a.Bind(e)
	var all sync.WaitGroup
	all.Go(func() { _ = e.Run(ctx) })
	ended := make(chan struct{})
	all.Go(func() {
		s, err := a.Request(ctx, wanted)
		if err != nil {
			if ctx.Err() == nil {
				t.Error(err)
			}
			return
		}
		_, _ = e.Await(ctx, s.Job, func(j *job.Job) bool { return j.Ended })
		close(ended)
	})
	select {
	case <-f.Dead:
	case <-ended:
	case <-time.After(15 * time.Second):
		t.Errorf("neither ended nor crashed at call %d", f.At)
	}
	kill()
	gone := make(chan struct{})
	go func() { all.Wait(); close(gone) }()
	select {
	case <-gone:
	// an engine that crashed in a call never frees its slots; the test does not wait for it
	case <-time.After(200 * time.Millisecond):
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// reopen starts another process on what was left, asks again, and gives the package.
func reopen(t *testing.T, store job.Store, dir string, holdings *shelf) string {
	t.Helper()
	a := openAccess(t, dir, holdings, nil)
	later := &fastClock{Clock: clock.System()}
	later.ahead.Store(int64(10 * time.Minute)) // what the dead process had leased has run out
	e, err := engine.New(store, a.Works(), engine.Options{Sweep: 10 * time.Millisecond, Clock: later})
	if err != nil {
		t.Fatal(err)
	}
	a.Bind(e)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	w := &harness{App: a, t: t, dir: dir, e: e, store: store, clock: later}
	defer func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) { // it may not have begun
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	s := w.ready(wanted)
	p := w.open(s.Token)
	text, err := io.ReadAll(p)
	if err != nil {
		t.Error(err)
	}
	j, err := store.Get(ctx, s.Job)
	if err != nil {
		t.Fatal(err)
	}
	history, err := store.History(ctx, s.Job, 0, 0)
	if err == nil {
		err = job.Verify(j, history, e.Life(j.Kind))
	}
	if err != nil {
		t.Error(err)
	}
	if err := a.Sweep(ctx); err != nil {
		t.Error(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, dirName, "*", "*"))
	if want := []string{filepath.Join(dir, dirName, string(s.Job), planName)}; err != nil || !slices.Equal(left, want) {
		t.Errorf("left: %v, %v", left, err)
	}
	return string(text)
}

// TestDeathAtEveryCall kills the process at every call of the store and of the holdings in the life of a package,
// before and after the call, and lets another process go on: one job, one plan, the same bytes.
func TestDeathAtEveryCall(t *testing.T) {
	holdings := newShelf(t)
	whole, store, dir := enginetest.NewFuse(0, false), mem.New(), t.TempDir()
	live(t, store, whole, dir, holdings)
	want := reopen(t, store, dir, holdings)
	t.Logf("the life of the package has %d calls", whole.Calls())
	if whole.Calls() < 8 || len(want) < 4096 {
		t.Fatalf("the control: %d calls, %d bytes", whole.Calls(), len(want))
	}
	t.Run("windows", func(t *testing.T) {
		for at := 1; at <= whole.Calls(); at++ {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d after=%t", at, after), func(t *testing.T) {
					t.Parallel()
					store, dir := mem.New(), t.TempDir()
					live(t, store, enginetest.NewFuse(at, after), dir, holdings)
					if got := reopen(t, store, dir, holdings); got != want {
						t.Error("the package is another")
					}
				})
			}
		}
	})
}
