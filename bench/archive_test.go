package bench

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/app/archive/packaging"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/edge/storage"
)

var (
	archiveFiles = flag.Int("archive.files", 100, "files that BenchmarkArchive archives")
	archiveKiB   = flag.Int("archive.kib", 4096, "KiB of each of them")
)

// BenchmarkArchive makes the package of gathered files and stores it in two directories, with every copy synced and
// read back, in turns with sha256sum of the files and cp of them to two directories. ratio is the quotient of the
// speeds.
func BenchmarkArchive(b *testing.B) {
	for _, pack := range []packaging.Container{packaging.Directory, packaging.Tar, packaging.Zip, packaging.TarGzip} {
		b.Run("pack="+string(pack), func(b *testing.B) {
			w := newArchiveFixture(b)
			var ours, theirs time.Duration
			for i := 0; b.Loop(); i++ {
				theirs += w.commands(b, i)
				ours += w.archive(b, i, pack)
			}
			bytes := float64(w.bytes) * float64(b.N) / 1e6
			b.ReportMetric(bytes/ours.Seconds(), "MB/s")
			b.ReportMetric(bytes/theirs.Seconds(), "commands-MB/s")
			b.ReportMetric(theirs.Seconds()/ours.Seconds(), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// archiveFixture has files that were gathered, a catalog and two storage locations.
type archiveFixture struct {
	dir   string
	files []packaging.File
	bytes int64
	index *catalog.Catalog
	store *copies.Store
}

func newArchiveFixture(b *testing.B) *archiveFixture {
	b.Helper()
	w := &archiveFixture{dir: b.TempDir()}
	gathered := w.sub(b, "gathered")
	chance := rand.NewChaCha8([32]byte{1})
	for i := range *archiveFiles {
		one, two := sha256.New(), sha512.New()
		f := packaging.File{
			Path: fmt.Sprintf("file-%04d.bin", i), Size: int64(*archiveKiB) << 10, Role: packaging.Payload,
		}
		out, err := os.Create(filepath.Join(gathered, f.Path))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.CopyN(io.MultiWriter(out, one, two), chance, f.Size); err != nil {
			b.Fatal(err)
		}
		if err := out.Close(); err != nil {
			b.Fatal(err)
		}
		f.SHA256, f.SHA512 = hex.EncodeToString(one.Sum(nil)), hex.EncodeToString(two.Sum(nil))
		w.files, w.bytes = append(w.files, f), w.bytes+f.Size
	}
	w.open(b)
	return w
}

// open opens the catalog and the locations.
func (w *archiveFixture) open(b *testing.B) {
	b.Helper()
	var err error
	if w.index, err = catalog.Open(b.Context(), filepath.Join(w.dir, catalog.Name), catalog.Options{}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = w.index.Close() })
	var targets []copies.Target
	for _, name := range []string{"near", "far"} {
		at, err := storage.OpenDir(w.sub(b, name), storage.Local)
		if err != nil {
			b.Fatal(err)
		}
		targets = append(targets, copies.Target{Name: name, At: at})
	}
	if w.store, err = copies.New(copies.Options{Catalog: w.index, Targets: targets}); err != nil {
		b.Fatal(err)
	}
}

func (w *archiveFixture) sub(b *testing.B, name string) string {
	b.Helper()
	dir := filepath.Join(w.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	return dir
}

// commands hashes and copies the files by sha256sum and cp.
func (w *archiveFixture) commands(b *testing.B, round int) time.Duration {
	b.Helper()
	began := time.Now()
	run := func(args ...string) {
		c := exec.CommandContext(b.Context(), args[0], args[1:]...)
		c.Dir = filepath.Join(w.dir, "gathered")
		if out, err := c.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
	run("sh", "-c", "sha256sum -- * > ../sums")
	for _, name := range []string{"copy-1", "copy-2"} {
		run("cp", "-r", ".", filepath.Join(w.dir, fmt.Sprintf("%s-%d", name, round)))
	}
	took := time.Since(began)
	for _, name := range []string{"copy-1", "copy-2"} {
		if err := os.RemoveAll(filepath.Join(w.dir, fmt.Sprintf("%s-%d", name, round))); err != nil {
			b.Fatal(err)
		}
	}
	return took
}

// archive packages and stores the files.
func (w *archiveFixture) archive(b *testing.B, round int, pack packaging.Container) time.Duration {
	b.Helper()
	ctx, id := b.Context(), fmt.Sprintf("arc_%d", round)
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	if err := w.index.Begin(ctx, catalog.Archive{Job: id, Source: "s", Course: "5", Created: at}); err != nil {
		b.Fatal(err)
	}
	from, into := openRoot(b, filepath.Join(w.dir, "gathered")), openRoot(b, w.sub(b, "package-"+id))
	began := time.Now()
	p, err := packaging.Build(ctx, packaging.Input{
		Name: "archive", Files: w.files, Gathered: from, Into: into, Containers: []packaging.Container{pack},
		Facts: packaging.Facts{
			Job:      packaging.Job{ID: id, Identifier: "urn:x:" + id, Packaged: at},
			Source:   source.Facts{Kind: "directory", Name: "s"},
			Software: packaging.Software{Name: "Stagepost", Version: "bench"},
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	w.save(ctx, b, id, p, into, from)
	took := time.Since(began)
	if err := w.store.Discard(ctx, id, "measured"); err != nil {
		b.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(w.dir, "package-"+id)); err != nil {
		b.Fatal(err)
	}
	return took
}

// save stores the products of a package.
func (w *archiveFixture) save(ctx context.Context, b *testing.B, id string, p *packaging.Package, into, from *os.Root) {
	b.Helper()
	var all []catalog.Artifact
	for _, one := range p.Products {
		all = append(all, catalog.Artifact{
			Job: id, Path: one.Name, Size: one.Size, SHA256: one.SHA256, SHA512: one.SHA512, Role: catalog.Payload,
		})
	}
	if err := w.index.PutArtifacts(ctx, id, all); err != nil {
		b.Fatal(err)
	}
	open, err := packaging.Opener(into, from)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := w.store.Save(ctx, copies.Request{
		Job: id, Open: func(name string) (copies.Source, error) { return open(name) },
	}); err != nil {
		b.Fatal(err)
	}
}

func openRoot(b *testing.B, dir string) *os.Root {
	b.Helper()
	r, err := os.OpenRoot(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = r.Close() })
	return r
}
