package copies_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/edge/storage"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var (
	errCrash = errors.New("the process crashed")
	errDown  = &storage.Error{Location: "test", Op: "any", Err: errors.New("connection refused"), Transient: true}
)

// crash fails at its nth point, and at all that follow: the process does nothing more.
type crash struct {
	mu sync.Mutex
	n  int // points until the crash; negative: none
	at int
}

func (c *crash) point() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at++; c.n >= 0 && c.at > c.n {
		return errCrash
	}
	return nil
}

func (c *crash) fired() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n >= 0 && c.at > c.n
}

// location is a directory with faults.
type location struct {
	storage.Location
	crash *crash
	tier  storage.Tier
	mu    sync.Mutex
	fail  func(op, key string) error // nil: none
	puts  map[string]int
	asked int // recalls
	ready bool
}

func (l *location) try(op, key string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return l.fail(op, key)
	}
	return nil
}

func (l *location) set(fail func(op, key string) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = fail
}

// around calls an operation between two points at which the process may crash.
func (l *location) around(op, key string, do func() error) error {
	if err := l.crash.point(); err != nil {
		return err
	}
	if err := l.try(op, key); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return l.crash.point()
}

func (l *location) Put(
	ctx context.Context, key string, src io.ReaderAt, c storage.Content, p *storage.Progress,
) error {
	return l.around("put", key, func() error {
		l.mu.Lock()
		if l.puts == nil {
			l.puts = map[string]int{}
		}
		l.puts[key]++
		l.mu.Unlock()
		return l.Location.Put(ctx, key, src, c, p)
	})
}

func (l *location) Open(ctx context.Context, key string, offset int64) (r io.ReadCloser, err error) {
	err = l.around("open", key, func() error { r, err = l.Location.Open(ctx, key, offset); return err })
	return r, err
}

func (l *location) Delete(ctx context.Context, key string) error {
	return l.around("delete", key, func() error { return l.Location.Delete(ctx, key) })
}

func (l *location) Free(ctx context.Context) (n int64, err error) {
	err = l.around("free", "", func() error { n, err = l.Location.Free(ctx); return err })
	return n, err
}

func (l *location) Recall(context.Context, string) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	return l.ready, nil
}

func (l *location) Properties() storage.Properties {
	p := l.Location.Properties()
	if l.tier != "" {
		p.Tier = l.tier
	}
	return p
}

// fixture is a catalog, a job with artifacts, and locations.
type fixture struct {
	t     *testing.T
	dir   string
	now   time.Time
	crash *crash
	cat   *catalog.Catalog
	at    map[string]*location
	store *copies.Store
	files map[string][]byte
}

const job = "0195-job"

func newFixture(t *testing.T, names ...string) *fixture {
	t.Helper()
	f := &fixture{
		t: t, dir: t.TempDir(), now: start, crash: &crash{n: -1},
		at: map[string]*location{}, files: map[string][]byte{},
	}
	for _, name := range names {
		must(t, os.Mkdir(filepath.Join(f.dir, name), 0o700))
	}
	f.open(names...)
	return f
}

// open opens everything as a new process does.
func (f *fixture) open(names ...string) {
	f.t.Helper()
	var err error
	f.cat, err = catalog.Open(f.t.Context(), filepath.Join(f.dir, catalog.Name), catalog.Options{
		Before: func(string) error { return f.crash.point() }, After: func(string) error { return f.crash.point() },
	})
	must(f.t, err)
	f.t.Cleanup(func() { _ = f.cat.Close() })
	o := copies.Options{Catalog: f.cat, Now: func() time.Time { return f.now }}
	for _, name := range names {
		d, err := storage.OpenDir(filepath.Join(f.dir, name), storage.Local)
		must(f.t, err)
		f.t.Cleanup(func() { _ = d.Close() })
		f.at[name] = &location{Location: d, crash: f.crash}
		o.Targets = append(o.Targets, copies.Target{Name: name, At: f.at[name], Parallel: 1})
	}
	f.store, err = copies.New(o)
	must(f.t, err)
}

// fill enters a job with n artifacts.
func (f *fixture) fill(n int) error {
	ctx := f.t.Context()
	if err := f.cat.Begin(ctx, catalog.Archive{Job: job, Source: "s", Created: start}); err != nil {
		return err
	}
	var all []catalog.Artifact
	for i := range n {
		path, content := fmt.Sprintf("pack/file-%04d.bin", i), bytes.Repeat([]byte{byte(i)}, 1000+i)
		f.files[path] = content
		a, b := sha256.Sum256(content), sha512.Sum512(content)
		all = append(all, catalog.Artifact{
			Path: path, Size: int64(len(content)), SHA256: hex.EncodeToString(a[:]), SHA512: hex.EncodeToString(b[:]),
			Role: catalog.Payload,
		})
	}
	return f.cat.PutArtifacts(ctx, job, all)
}

type content struct{ *bytes.Reader }

func (content) Close() error { return nil }

func (f *fixture) request() copies.Request {
	return copies.Request{
		Job: job, Retain: start.AddDate(1, 0, 0),
		Open: func(path string) (copies.Source, error) {
			c, ok := f.files[path]
			if !ok {
				return nil, fs.ErrNotExist
			}
			return content{bytes.NewReader(c)}, nil
		},
	}
}

// stored fails the test unless a location has exactly the artifacts, each once and whole.
func (f *fixture) stored(name string, want int) {
	f.t.Helper()
	got := map[string][]byte{}
	must(f.t, filepath.WalkDir(filepath.Join(f.dir, name), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == copies.Marker {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(filepath.Join(f.dir, name), path)
		got[filepath.ToSlash(rel)] = b
		return err
	}))
	if len(got) != want {
		f.t.Errorf("%s has %d files, want %d", name, len(got), want)
	}
	for key, b := range got {
		_, path, _ := strings.Cut(key, job+"/")
		if !bytes.Equal(b, f.files[path]) {
			f.t.Errorf("%s has other content in %s", name, key)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
