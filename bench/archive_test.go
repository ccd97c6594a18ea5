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
	"slices"
	"syscall"
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
// read back, in turns with sha256sum of the files and cp of them to two directories. Metrics are medians of the rounds:
// ratio is the quotient of the speeds, and cpu and commands-cpu are the processor seconds for a GB. The files are
// random bytes, which no compressor makes smaller, like videos and backups; with text they are HTML.
func BenchmarkArchive(b *testing.B) {
	for _, pack := range []packaging.Container{packaging.Directory, packaging.Tar, packaging.Zip, packaging.TarGzip} {
		b.Run("pack="+string(pack), func(b *testing.B) {
			newArchiveFixture(b, rand.NewChaCha8([32]byte{1})).measure(b, pack)
		})
	}
	b.Run("pack=tar.gz/text", func(b *testing.B) { newArchiveFixture(b, newHTML()).measure(b, packaging.TarGzip) })
}

// measure runs the commands and the archive in turns.
func (w *archiveFixture) measure(b *testing.B, pack packaging.Container) {
	var rows [5][]float64
	gb := float64(w.bytes) / 1e9
	for i := 0; b.Loop(); i++ {
		theirs := w.commands(b, i)
		ours := w.archive(b, i, pack)
		for at, value := range []float64{
			theirs.took.Seconds() / ours.took.Seconds(),
			gb * 1e3 / ours.took.Seconds(), gb * 1e3 / theirs.took.Seconds(),
			ours.cpu.Seconds() / gb, theirs.cpu.Seconds() / gb,
		} {
			rows[at] = append(rows[at], value)
		}
	}
	b.Logf("ratios: %.2f", rows[0])
	for at, unit := range []string{"ratio", "MB/s", "commands-MB/s", "cpu-s/GB", "commands-cpu-s/GB"} {
		slices.Sort(rows[at])
		b.ReportMetric(rows[at][len(rows[at])/2], unit)
	}
	b.ReportMetric(0, "ns/op")
}

// effort is the time and the processor time of a round.
type effort struct{ took, cpu time.Duration }

// effortOf measures work in this process, or, with [syscall.RUSAGE_CHILDREN], in its children.
func effortOf(b *testing.B, who int, work func()) effort {
	b.Helper()
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before, began := used(), time.Now()
	work()
	took := time.Since(began)
	return effort{took, used() - before}
}

// html is an endless page of words that occur again and again.
type html struct {
	chance *rand.Rand
	words  []string
	rest   []byte
}

func newHTML() *html {
	h := &html{chance: rand.New(rand.NewPCG(1, 2))}
	for range 5000 {
		word := make([]byte, 2+h.chance.IntN(9))
		for i := range word {
			word[i] = 'a' + byte(h.chance.IntN(26))
		}
		h.words = append(h.words, string(word))
	}
	return h
}

func (h *html) Read(p []byte) (int, error) {
	for len(h.rest) < len(p) {
		h.rest = fmt.Appendf(h.rest, "<div class=\"answer\" id=\"q%d\"><p>", h.chance.IntN(100000))
		for range 20 {
			h.rest = append(append(h.rest, h.words[h.chance.IntN(len(h.words))]...), ' ')
		}
		h.rest = append(h.rest, "</p></div>\n"...)
	}
	n := copy(p, h.rest)
	h.rest = append(h.rest[:0], h.rest[n:]...)
	return n, nil
}

// archiveFixture has files that were gathered, a catalog and two storage locations.
type archiveFixture struct {
	dir   string
	files []packaging.File
	bytes int64
	index *catalog.Catalog
	store *copies.Store
}

func newArchiveFixture(b *testing.B, chance io.Reader) *archiveFixture {
	b.Helper()
	w := &archiveFixture{dir: b.TempDir()}
	gathered := w.sub(b, "gathered")
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
func (w *archiveFixture) commands(b *testing.B, round int) effort {
	b.Helper()
	run := func(args ...string) {
		c := exec.CommandContext(b.Context(), args[0], args[1:]...)
		c.Dir = filepath.Join(w.dir, "gathered")
		if out, err := c.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
	took := effortOf(b, syscall.RUSAGE_CHILDREN, func() {
		run("sh", "-c", "sha256sum -- * > ../sums")
		for _, name := range []string{"copy-1", "copy-2"} {
			run("cp", "-r", ".", filepath.Join(w.dir, fmt.Sprintf("%s-%d", name, round)))
		}
	})
	for _, name := range []string{"copy-1", "copy-2"} {
		if err := os.RemoveAll(filepath.Join(w.dir, fmt.Sprintf("%s-%d", name, round))); err != nil {
			b.Fatal(err)
		}
	}
	return took
}

// archive packages and stores the files.
func (w *archiveFixture) archive(b *testing.B, round int, pack packaging.Container) effort {
	b.Helper()
	ctx, id := b.Context(), fmt.Sprintf("arc_%d", round)
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	if err := w.index.Begin(ctx, catalog.Archive{Job: id, Source: "s", Course: "5", Created: at}); err != nil {
		b.Fatal(err)
	}
	from, into := openRoot(b, filepath.Join(w.dir, "gathered")), openRoot(b, w.sub(b, "package-"+id))
	took := effortOf(b, syscall.RUSAGE_SELF, func() {
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
	})
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
