package archiveserve

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/app/archive/sign"
	"github.com/stagepost/stagepost/edge/storage"
	"github.com/stagepost/stagepost/edge/timestamp"
	"github.com/stagepost/stagepost/format/rfc3161/authority"
)

const (
	renewedJob = "arc_1"
	sealed     = "exam.manifest"
)

// tsa is a time-stamp authority over HTTP.
type tsa struct {
	settings timestamp.Settings
	asked    atomic.Int32
}

func newTSA(t *testing.T, name string, options ...authority.Option) *tsa {
	t.Helper()
	a, err := authority.New(name, time.Now(), options...)
	must(t, err)
	s := &tsa{}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		a.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	root := filepath.Join(t.TempDir(), "root.pem")
	must(t, os.WriteFile(root, a.RootPEM(), 0o600))
	s.settings = timestamp.Settings{Name: name, URL: h.URL, Roots: []string{root}}
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// crashing is a storage location with a point before and after each file that it stores.
type crashing struct {
	storage.Location
	point func(string) error
}

// Put implements [storage.Location].
func (c crashing) Put(
	ctx context.Context, key string, src io.ReaderAt, x storage.Content, p *storage.Progress,
) error {
	if err := c.point("put " + key); err != nil {
		return err
	}
	if err := c.Location.Put(ctx, key, src, x, p); err != nil {
		return err
	}
	return c.point("stored " + key)
}

// renewal is an archive with a time stamp, in two locations.
type renewal struct {
	t       *testing.T
	dir     string // has the catalog, the locations a and b, and renewals
	now     time.Time
	catalog *catalog.Catalog
	copies  *copies.Store
	signer  *sign.Signer
	renewer *renewer
	close   func()
}

// open opens everything as a new process does.
func (f *renewal) open(point func(string) error, authorities ...*tsa) {
	f.t.Helper()
	now := func() time.Time { return f.now }
	var err error
	f.catalog, err = catalog.Open(f.t.Context(), filepath.Join(f.dir, catalog.Name),
		catalog.Options{Before: point, After: point})
	must(f.t, err)
	o := copies.Options{Catalog: f.catalog, Now: now}
	for _, name := range []string{"a", "b"} {
		at := filepath.Join(f.dir, name)
		must(f.t, os.MkdirAll(at, 0o700))
		d, err := storage.OpenDir(at, storage.Local)
		must(f.t, err)
		o.Targets = append(o.Targets, copies.Target{Name: name, At: crashing{d, point}, Parallel: 1})
	}
	f.copies, err = copies.New(o)
	must(f.t, err)
	s := sign.Options{Catalog: f.catalog, Now: now, Point: point}
	for _, x := range authorities {
		a, err := timestamp.NewAuthority(x.settings)
		must(f.t, err)
		s.Authorities = append(s.Authorities, a)
	}
	f.signer, err = sign.New(s)
	must(f.t, err)
	f.renewer = &renewer{
		dir: filepath.Join(f.dir, "renewals"), catalog: f.catalog, copies: f.copies, signer: f.signer, point: point,
	}
	f.close = func() {
		must(f.t, f.catalog.Close())
		for _, t := range o.Targets {
			must(f.t, t.At.Close())
		}
	}
}

func nothing(string) error { return nil }

// archived makes an archive with one file, its time stamp, and copies in both locations.
func (f *renewal) archived() {
	f.t.Helper()
	ctx, work := f.t.Context(), f.t.TempDir()
	must(f.t, os.WriteFile(filepath.Join(work, sealed), []byte("a manifest\n"), 0o600))
	root, err := os.OpenRoot(work)
	must(f.t, err)
	defer root.Close()
	settings := []byte(`{"locations":["a","b"],"quorum":"all"}`)
	must(f.t, f.catalog.Begin(ctx, catalog.Archive{Job: renewedJob, Source: "s", Created: f.now, Settings: settings}))
	r, err := f.signer.Sign(ctx, sign.Document{Job: renewedJob, Path: sealed, Dir: root,
		Open: func() (io.ReadCloser, error) { return root.Open(sealed) }})
	must(f.t, err)
	var all []catalog.Artifact
	for _, name := range append([]string{sealed}, r.Files...) {
		one, err := signature(root, name)
		must(f.t, err)
		all = append(all, one)
	}
	must(f.t, f.catalog.PutArtifacts(ctx, renewedJob, all))
	_, err = f.copies.Save(ctx, copies.Request{Job: renewedJob,
		Open: func(name string) (copies.Source, error) { return root.Open(name) }})
	must(f.t, err)
	must(f.t, f.catalog.End(ctx, renewedJob, catalog.Complete, f.now))
}

// files gives the files of the archive in a location.
func (f *renewal) files(location string) (names []string, text map[string][]byte) {
	f.t.Helper()
	text = map[string][]byte{}
	base := filepath.Join(f.dir, location, renewedJob)
	must(f.t, filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(base, path)
		if err != nil {
			return err
		}
		names = append(names, name)
		text[name], err = os.ReadFile(path)
		return err
	}))
	slices.Sort(names)
	return names, text
}

// renewed checks that there is one token of each generation up to the last, with its files in both locations and no
// others. was are the files of the first one.
func (f *renewal) renewed(last int, was map[string][]byte) error {
	tokens, err := f.catalog.Tokens(f.t.Context(), renewedJob)
	if err != nil || len(tokens) != last {
		return fmt.Errorf("%d tokens, %w", len(tokens), err)
	}
	want := []string{sealed}
	for g := 1; g <= last; g++ {
		name := sealed
		if g > 1 {
			name += fmt.Sprintf(".%d", g)
			want = append(want, name+".sha512")
		}
		want = append(want, name+".pem", name+".tsq", name+".tsr", name+".tst")
	}
	slices.Sort(want)
	for _, location := range []string{"a", "b"} {
		names, text := f.files(location)
		if d := cmp.Diff(want, names); d != "" {
			return fmt.Errorf("%s: %s", location, d)
		}
		for _, t := range tokens {
			name := sealed + ".tsr"
			if t.Generation > 1 {
				name = fmt.Sprintf("%s.%d.tsr", sealed, t.Generation)
			}
			if !bytes.Equal(text[name], t.Reply) {
				return fmt.Errorf("%s: %s is of another token", location, name)
			}
		}
		for name := range was {
			if !bytes.Equal(was[name], text[name]) {
				return fmt.Errorf("%s: %s changed", location, name)
			}
		}
		v, err := sign.Verify(os.DirFS(filepath.Join(f.dir, location, renewedJob)), sealed, nil, f.signer.Verifier(),
			f.now)
		if err != nil || len(v.Stamps) != last {
			return fmt.Errorf("%s: %+v, %w", location, v, err)
		}
	}
	if left, err := list(f.renewer.dir); err != nil || len(left) > 0 {
		return fmt.Errorf("renewals %v, %w", left, err)
	}
	due, err := f.signer.Expiring(f.t.Context(), 10)
	if err != nil || len(due) > 0 {
		return fmt.Errorf("%d time stamps are due, %w", len(due), err)
	}
	return nil
}

// TestRenewalCrash crashes a renewal at each step: each write of the catalog, request, answer, file, and copy in a
// location. After a start there is exactly one new time stamp, in both locations, and the earlier one is as it was. A
// run that is repeated requests nothing.
func TestRenewalCrash(t *testing.T) {
	errCrash := errors.New("the process crashed")
	old := newTSA(t, "old", func(c *x509.Certificate) { c.NotAfter = time.Now().AddDate(0, 2, 0) })
	fresh := newTSA(t, "fresh")
	first := &renewal{t: t, dir: t.TempDir(), now: time.Now()}
	first.open(nothing, old)
	first.archived()
	_, was := first.files("a")
	first.close()
	var points sync.Map // names of steps
	for n := 1; ; n++ {
		f := &renewal{t: t, dir: filepath.Join(t.TempDir(), "copy"), now: first.now}
		must(t, os.CopyFS(f.dir, os.DirFS(first.dir)))
		var at atomic.Int32
		f.open(func(name string) error {
			if at.Add(1) >= int32(n) {
				return fmt.Errorf("%w before %s", errCrash, name)
			}
			points.Store(strings.Fields(name)[0], true)
			return nil
		}, fresh, old)
		asked := fresh.asked.Load()
		crashed := f.renewer.run(t.Context())
		if crashed != nil && !errors.Is(crashed, errCrash) {
			t.Fatalf("crash %d: %v", n, crashed)
		}
		f.close()
		f.open(nothing, fresh, old)
		for range 2 { // the second one finds nothing to do
			must(t, f.renewer.run(t.Context()))
			if err := f.renewed(2, was); err != nil {
				t.Fatalf("crash %d (%v): %v", n, crashed, err)
			}
		}
		if asked = fresh.asked.Load() - asked; asked > 2 || crashed == nil && asked != 1 {
			t.Errorf("crash %d (%v): %d requests", n, crashed, asked)
		}
		f.close()
		if crashed != nil {
			continue
		}
		if n < 40 {
			t.Errorf("only %d crashes", n)
		}
		break
	}
	for _, name := range []string{"begin", "fetch", "request", "answer", "write", "put", "stored", "plan", "end"} {
		if _, ok := points.Load(name); !ok {
			t.Errorf("no crash at %s", name)
		}
	}
}

// TestRenewalAgain: each due date gives one new time stamp, and between them there is none.
func TestRenewalAgain(t *testing.T) {
	old := newTSA(t, "old", func(c *x509.Certificate) { c.NotAfter = time.Now().AddDate(0, 2, 0) })
	next := newTSA(t, "next", func(c *x509.Certificate) { c.NotAfter = time.Now().AddDate(1, 0, 0) })
	last := newTSA(t, "last", func(c *x509.Certificate) { c.NotAfter = time.Now().AddDate(5, 0, 0) })
	f := &renewal{t: t, dir: t.TempDir(), now: time.Now()}
	f.open(nothing, old)
	f.archived()
	_, was := f.files("a")
	f.close()
	f.open(nothing, next, last, old)
	began := f.now
	for _, c := range []struct{ months, tokens int }{{0, 2}, {6, 2}, {11, 3}, {12, 3}, {24, 3}} {
		f.now = began.AddDate(0, c.months, 0)
		must(t, f.renewer.run(t.Context()))
		if err := f.renewed(c.tokens, was); err != nil {
			t.Fatalf("after %d months: %v", c.months, err)
		}
	}
	if old.asked.Load() != 1 || next.asked.Load() != 2 || last.asked.Load() != 1 {
		t.Errorf("requests: %d, %d, %d", old.asked.Load(), next.asked.Load(), last.asked.Load())
	}
	f.close()
}
