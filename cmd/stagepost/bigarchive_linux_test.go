package main

import (
	"context"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/format/rfc3161/authority"
	"github.com/stagepost/stagepost/internal/durable"
)

var (
	archivedFiles = flag.Int("archived-files", 1000, "files of the archive of TestBigArchive")
	archivedPack  = flag.String("archived-pack", "tar.gz", "form of its package")
)

// TestBigArchive archives a tree of many files through the real server: package, two storage locations, time stamp and
// catalog. It checks the server's memory.
func TestBigArchive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stamps, err := authority.New("Test authority", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	service := httptest.NewServer(stamps)
	defer service.Close()
	data := bigTree(t, dir, service.URL, stamps.RootPEM())

	v := raise(t, data)
	c, err := client.New(v.url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 18*time.Minute)
	defer cancel()
	j, err := c.SubmitArchive(ctx, client.ArchiveOrder{
		ArchiveRequest: client.ArchiveRequest{
			Source: "disk", Course: "tree", Settings: client.ArchiveSettings{Pack: *archivedPack},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Watch(ctx, j.ID, 0, func(client.Update) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if j, err = c.Job(ctx, j.ID); err != nil || j.State != "Completed" {
		t.Fatalf("got %+v, %v", j, err)
	}
	most := highWater(t, v.Process.Pid)
	if err := v.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := v.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("%d files: %d MiB resident at most", *archivedFiles, most>>20)
	if most > mostMemory {
		t.Errorf("the server took %d MiB, %d are allowed", most>>20, mostMemory>>20)
	}
	for _, name := range []string{"near", "far"} {
		stamped, err := filepath.Glob(filepath.Join(dir, name, string(j.ID), "*.tsr"))
		if err != nil || len(stamped) != 1 {
			t.Errorf("%s has the time stamps %v, %v", name, stamped, err)
		}
	}
}

// bigTree writes the source and the configuration. It returns the data directory.
func bigTree(t *testing.T, dir, authority string, root []byte) (data string) {
	t.Helper()
	data = filepath.Join(dir, "data")
	for _, name := range []string{"data", "near", "far", "root/tree"} {
		if err := durable.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for i := range *archivedFiles {
		name := filepath.Join(dir, "root/tree", fmt.Sprintf("folder-%02d", i%100), fmt.Sprintf("file-%05d.txt", i))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, fmt.Appendf(nil, "file %d\n", i), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text := fmt.Sprintf(`sources:
  disk: {directory: {path: %q}}
locations:
  near: {directory: {path: %q}}
  far: {directory: {path: %q}}
authorities:
  - {name: test, url: %q, roots: [%q]}
`, filepath.Join(dir, "root"), filepath.Join(dir, "near"), filepath.Join(dir, "far"), authority,
		filepath.Join(dir, "root.pem"))
	for name, content := range map[string][]byte{"data/archive.yaml": []byte(text), "root.pem": root} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return data
}
