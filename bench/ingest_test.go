package bench

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/sqlite"
)

var (
	ingestObjects = flag.Int("ingest.objects", 300, "objects that BenchmarkIngest ingests")
	ingestSlots   = flag.Int("ingest.slots", 16, "steps that run at once in BenchmarkIngest; 16 is the server's default")
	ingestDir     = flag.String("ingest.dir", "", "directory on the disk that BenchmarkIngest uses; defaults to TMPDIR")
)

// ingestTraced makes this program the one whose syncs BenchmarkIngest counts: it ingests once and ends.
const ingestTraced = "STAGEPOST_BENCH_INGEST"

// BenchmarkIngest ingests a batch manifest of objects of three files of 1 to 10 KB through the application with all
// phases, the embedded store and an HTTP server in this process that has the files. In turns with it, small writes are
// synced one after the other: syncs/s of the disk. It reports medians of the rounds, and, if strace is there, how many
// syncs an object costs by what is synced, counted in a process of its own.
func BenchmarkIngest(b *testing.B) {
	if os.Getenv(ingestTraced) != "" {
		newIngestFixture(b).run(b)
		return
	}
	var rows [4][]float64
	for b.Loop() {
		syncs := rawSyncs(b, 200*time.Millisecond)
		w := newIngestFixture(b)
		spent := effortOf(b, syscall.RUSAGE_SELF, func() { w.run(b) })
		n := float64(*ingestObjects)
		for at, value := range []float64{
			n / spent.took.Seconds(), spent.cpu.Seconds() * 1e3 / n, float64(w.commits.Load()) / n, syncs,
		} {
			rows[at] = append(rows[at], value)
		}
	}
	b.Logf("objects/s: %.0f", rows[0])
	for at, unit := range []string{"objects/s", "cpu-ms/object", "store-commits/object", "disk-syncs/s"} {
		b.ReportMetric(median(rows[at]), unit)
	}
	b.ReportMetric(0, "ns/op")
	countSyncs(b)
}

// ingestFixture is the application on a fresh data directory, and a server with objects.
type ingestFixture struct {
	dir     string
	site    *httptest.Server
	text    string // the batch manifest
	commits atomic.Int64
}

func newIngestFixture(b *testing.B) *ingestFixture {
	b.Helper()
	dir, err := os.MkdirTemp(*ingestDir, "bench-ingest")
	if err != nil {
		b.Fatal(err)
	}
	w := &ingestFixture{dir: dir}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	files := map[string][]byte{}
	w.site = httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		text, ok := files[strings.TrimPrefix(r.URL.Path, "/")]
		if !ok {
			http.NotFound(to, r)
			return
		}
		http.ServeContent(to, r, "", time.Unix(1_700_000_000, 0), bytes.NewReader(text))
	}))
	b.Cleanup(w.site.Close)
	chance := rand.NewChaCha8([32]byte{7})
	sizes := rand.New(chance)
	var objects []string
	for i := range *ingestObjects {
		var list []string
		for k := range 3 {
			name := fmt.Sprintf("%d/%d.bin", i, k)
			text := make([]byte, 1000+sizes.IntN(9000))
			_, _ = chance.Read(text)
			sum := sha256.Sum256(text)
			files[name] = text
			list = append(list, fmt.Sprintf("%s/%s | sha256 | %s | %d |  | %d.bin", w.site.URL, name,
				hex.EncodeToString(sum[:]), len(text), k))
		}
		name := fmt.Sprintf("%d.checkm", i)
		files[name] = []byte(checkmOf("mrt-ingest-manifest", list))
		objects = append(objects, fmt.Sprintf("%s/%s |  |  |  |  | %s |  | local-%d | A. Person | Object %d | 2026",
			w.site.URL, name, name, i, i))
	}
	w.text = checkmOf("mrt-batch-manifest", objects)
	return w
}

func checkmOf(profile string, rows []string) string {
	return "#%checkm_0.7\n#%profile | http://uc3.cdlib.org/registry/ingest/manifest/" + profile + "\n" +
		strings.Join(rows, "\n") + "\n#%eof\n"
}

// run ingests the batch from the submission to its end.
func (w *ingestFixture) run(b *testing.B) {
	b.Helper()
	settings := storeOptions()
	settings.OnCommit = func(int, time.Duration) { w.commits.Add(1) }
	store, err := sqlite.Open(w.dir, settings)
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	set, err := profile.New(profile.Profile{ID: "bench", Owner: "library", Collection: "bench",
		Networks: []string{"127.0.0.0/8", "::1/128"}})
	if err != nil {
		b.Fatal(err)
	}
	app, err := ingest.New(ingest.Options{Dir: w.dir, Profiles: set, Records: store})
	if err != nil {
		b.Fatal(err)
	}
	e, err := engine.New(store, app.Works(), engine.Options{Slots: *ingestSlots, Deliver: app.Deliver()})
	if err != nil {
		b.Fatal(err)
	}
	app.Bind(e)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
		if err := app.Close(); err != nil {
			b.Error(err)
		}
	}()
	batch, err := app.Submit(ctx, ingest.Submission{Profile: "bench", Submitter: "ann", Filename: "batch.checkm"},
		strings.NewReader(w.text))
	if err != nil {
		b.Fatal(err)
	}
	end, err := e.Await(ctx, batch.ID, func(j *job.Job) bool { return j.Ended })
	if err != nil || end.Outcome != lc.OK || end.Children.OK != *ingestObjects {
		b.Fatalf("%s with %+v: %s, %v", end.State, end.Children, end.Message, err)
	}
}

// rawSyncs is how many small writes a second the disk syncs, one after the other.
func rawSyncs(b *testing.B, during time.Duration) float64 {
	b.Helper()
	f, err := os.CreateTemp(*ingestDir, "bench-sync")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _, _ = f.Close(), os.Remove(f.Name()) }()
	page, n, began := make([]byte, 4096), 0, time.Now()
	for ; time.Since(began) < during; n++ {
		if _, err := f.WriteAt(page, int64(n%1024)*4096); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	return float64(n) / time.Since(began).Seconds()
}

// countSyncs ingests once more in a process under strace, and reports its syncs for each object.
func countSyncs(b *testing.B) {
	b.Helper()
	tool, err := exec.LookPath("strace")
	if err != nil {
		b.Logf("syncs are not counted: %v", err)
		return
	}
	trace := filepath.Join(b.TempDir(), "trace")
	cmd := exec.CommandContext(b.Context(), tool, "-f", "-y", "--seccomp-bpf", "-o", trace,
		"-e", "trace=fsync,fdatasync,syncfs,sync_file_range", os.Args[0], "-test.run=xxx",
		"-test.bench=^BenchmarkIngest$", "-test.benchtime=1x", fmt.Sprintf("-ingest.objects=%d", *ingestObjects),
		fmt.Sprintf("-ingest.slots=%d", *ingestSlots), "-ingest.dir="+*ingestDir,
		fmt.Sprintf("-store.log=%t", *storeLog))
	cmd.Env = append(os.Environ(), ingestTraced+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Logf("syncs are not counted: %v: %s", err, out)
		return
	}
	f, err := os.Open(trace)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	all, err := io.ReadAll(f)
	if err != nil {
		b.Fatal(err)
	}
	total, whole, counts := 0, "", map[string]int{}
	for line := range strings.Lines(string(all)) {
		if _, call, ok := strings.Cut(line, "sync"); ok && !strings.Contains(line, "resumed>") {
			_, name, _ := strings.Cut(call, "<")
			name, _, _ = strings.Cut(name, ">")
			what := syncedWhat(name)
			if strings.HasPrefix(call, "fs(") {
				whole, what = name, "the whole file system"
			} else if name == whole { // on ext4 without a journal
				what = "the directory that follows a sync of the whole file system"
			}
			total++
			counts[what]++
		}
	}
	n := float64(*ingestObjects)
	b.ReportMetric(float64(total)/n, "syncs/object")
	var parts []string
	for what := range counts {
		parts = append(parts, what)
	}
	slices.SortFunc(parts, func(x, y string) int { return cmp.Compare(counts[y], counts[x]) })
	var text strings.Builder // of one message: a benchmark prints ten at most
	for _, what := range parts {
		if counts[what] > *ingestObjects/100 {
			fmt.Fprintf(&text, "%.2f %s; ", float64(counts[what])/n, what)
		}
	}
	b.Logf("syncs an object: %s", text.String())
}

// syncedWhat names the kind of a file or directory below the data directory.
func syncedWhat(name string) string {
	_, within, ok := strings.Cut(name, "bench-ingest")
	if !ok {
		return name
	}
	if before, staged, ok := strings.Cut(within, "/extensions/stagepost-staging/"); ok {
		kind := "files and directories"
		if strings.HasPrefix(path.Base(staged), "inventory.json") {
			kind = "inventories"
		}
		_, before, _ = strings.Cut(before, "/")
		return before + ": staged " + kind
	}
	parts := strings.Split(within, "/")[1:]
	for i, part := range parts {
		switch {
		case strings.HasPrefix(part, "bat_"), strings.HasPrefix(part, "ing_"):
			parts[i] = part[:4] + "*"
		case i > 0 && parts[0] == "storage" && parts[1] != "extensions" && i < 5,
			i == 2 && parts[0] == "storage" && parts[1] != "extensions":
			parts[i] = "*"
		case i > 0 && parts[i-1] == "parts":
			parts[i] = "*"
		}
	}
	return strings.Join(parts, "/")
}
