package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/format/checkm"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
)

var (
	bigFiles = flag.Int("big-files", 1000, "files of the object of TestBigObject")
	bigBytes = flag.Int64("big-bytes", 64<<20, "bytes of its one big file")
)

// mostMemory is what the server may take, whatever it stores: resident memory at its highest.
const mostMemory = 128 << 20

// stripes is a file of so many bytes that is not stored: each byte follows from its offset.
type stripes struct{ size, at int64 }

func (s *stripes) Read(b []byte) (int, error) {
	if s.at >= s.size {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), s.size-s.at))
	for i := 0; i < n; {
		page := s.at >> 12
		line := strconv.AppendInt(nil, page, 16)
		in := int(s.at & 4095)
		for ; i < n && in < 4096; i, in, s.at = i+1, in+1, s.at+1 {
			b[i] = line[in%len(line)]
		}
	}
	return n, nil
}

func (s *stripes) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += s.at
	case io.SeekEnd:
		offset += s.size
	}
	s.at = offset
	return s.at, nil
}

// content is what the source has under a path: the path itself, or the big file.
func content(path string) io.ReadSeeker {
	if path == "/big" {
		return &stripes{size: *bigBytes}
	}
	return strings.NewReader(path)
}

// TestBigObject stores an object of many files, one of them very big, through the real server and checks the server's
// memory.
func TestBigObject(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	profile := filepath.Join(dir, "profiles", "local.yaml")
	if err := os.MkdirAll(filepath.Dir(profile), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(profile, []byte("id: local\nallow_networks: [127.0.0.0/8]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, r, "", time.Time{}, content(r.URL.Path))
	}))
	defer source.Close()
	manifest := bigManifest(t, source.URL)

	v := raise(t, dir)
	c, err := client.New(v.url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 18*time.Minute)
	defer cancel()
	batch, err := c.Submit(ctx, client.Submission{Type: "object-manifest", Profile: "local", Filename: "big.checkm"},
		bytes.NewReader(manifest))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Watch(ctx, batch.ID, 0, func(client.Update) error { return nil }); err != nil {
		t.Fatal(err)
	}
	page, err := c.Jobs(ctx, job.Query{Parent: batch.ID})
	if err != nil || len(page.Jobs) != 1 || page.Jobs[0].State != "Completed" {
		t.Fatalf("got %+v, %v", page.Jobs, err)
	}
	most := highWater(t, v.Process.Pid)
	if err := v.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := v.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("%d files, one of %d MiB: %d MiB resident at most", *bigFiles, *bigBytes>>20, most>>20)
	if most > mostMemory {
		t.Errorf("the server took %d MiB, %d are allowed", most>>20, mostMemory>>20)
	}
	report, err := ocfl.Validate(ctx, filepath.Join(dir, "storage"))
	if err != nil || !report.Valid() || report.Files < *bigFiles {
		t.Errorf("the storage root: %+v, %v", report, err)
	}
}

func bigManifest(t *testing.T, url string) []byte {
	var text bytes.Buffer
	w := checkm.NewWriter(&text, checkm.Object)
	for i := range *bigFiles {
		name := fmt.Sprintf("/%03d/file%06d.txt", i%100, i)
		size := int64(len(name))
		if i == 0 {
			name, size = "/big", *bigBytes
		}
		h := sha256.New()
		if _, err := io.Copy(h, content(name)); err != nil {
			t.Fatal(err)
		}
		err := w.Write(checkm.Row{
			URL: url + name, FileName: strings.TrimPrefix(name, "/"), Size: size,
			Digest: checkm.Digest{Algorithm: "sha256", Value: hex.EncodeToString(h.Sum(nil))},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

// highWater gives the most memory, in bytes, that the process has had resident.
func highWater(t *testing.T, pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
