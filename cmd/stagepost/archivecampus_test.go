package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/digitorus/timestamp"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/stagepost/stagepost/app/archive/source/moodle/replay"
	"github.com/stagepost/stagepost/format/rfc3161/authority"
)

// campus is what an archive job of the test uses: a Moodle and a directory as sources, two directories and an S3
// service as storage locations, and a time-stamp authority. Every request to them is a point at which the server can be
// killed, and so is every commit of its databases.
type campus struct {
	t       *testing.T
	at      string // directory of everything
	points  *boundaries
	moodle  *replay.Server
	backend gofakes3.Backend
	s3      http.Handler

	mu       sync.Mutex                 // guards the rest
	imprints []string                   // of the requests to the authority
	uploads  map[string]map[string]bool // digests of what was uploaded, by the name of the object and the part
}

const (
	bucket       = "archive"
	locationFile = "stagepost-location.txt" // names a storage location
)

func newCampus(t *testing.T) *campus {
	c := &campus{t: t, at: t.TempDir(), points: newBoundaries(t), uploads: map[string]map[string]bool{}}
	var err error
	if c.moodle, err = replay.New(); err != nil {
		t.Fatal(err)
	}
	c.backend = s3mem.New()
	if err := c.backend.CreateBucket(bucket); err != nil {
		t.Fatal(err)
	}
	c.s3 = gofakes3.New(c.backend).Server()
	stamps, err := authority.New("Test authority", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"data", "near", "far", "exams/algebra/ann"} {
		if err := os.MkdirAll(filepath.Join(c.at, name), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	large := make([]byte, 6<<20) // an upload of two parts, also when it is packed
	_, _ = rand.NewChaCha8([32]byte{}).Read(large)
	for name, content := range map[string][]byte{
		"exams/algebra/task.txt": []byte("1 + 1"), "exams/algebra/ann/scan.bin": large, "root.pem": stamps.RootPEM(),
		"token": []byte(replay.Token), "password": []byte(replay.Password), "key": []byte("key"),
	} {
		if err := os.WriteFile(filepath.Join(c.at, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	moodle := c.points.observe(t, c.moodle, nameOfPage)
	s3 := c.points.observe(t, http.HandlerFunc(c.upload), func(r *http.Request) string {
		return "S3 " + r.Method + " " + r.URL.RawQuery
	})
	tsa := c.points.observe(t, c.recordImprints(stamps), func(*http.Request) string { return "authority" })
	c.configure(moodle.URL, strings.TrimPrefix(s3.URL, "http://"), tsa.URL)
	return c
}

func nameOfPage(r *http.Request) string {
	if r.URL.Path == "/webservice/rest/server.php" {
		if err := r.ParseForm(); err != nil {
			return "Moodle"
		}
		return "Moodle " + r.Form.Get("wsfunction")
	}
	return "Moodle " + r.Method + " " + r.URL.Path
}

func (c *campus) configure(moodle, s3, stamps string) {
	text := fmt.Sprintf(`sources:
  campus: {moodle: {url: %q, token_file: %[2]s/token, account: %[3]q, password_file: %[2]s/password}}
  exams: {directory: {path: %[2]s/exams}}
locations:
  near: {directory: {path: %[2]s/near}}
  far: {directory: {path: %[2]s/far}}
  bucket:
    s3: {endpoint: %[4]q, insecure: true, bucket: %[5]s, region: us-east-1, access_key_file: %[2]s/key,
         secret_key_file: %[2]s/key, path_style: true, part_size: 5MiB}
authorities:
  - {name: ours, url: %[6]q, roots: [%[2]s/root.pem]}
`, moodle, c.at, replay.User, s3, bucket, stamps)
	if err := os.WriteFile(filepath.Join(c.at, "data", "archive.yaml"), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// upload answers as the S3 service, and records what is uploaded.
func (c *campus) upload(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.Method == http.MethodPut {
		sum := sha256.Sum256(body)
		name := r.URL.Path + " " + r.URL.Query().Get("partNumber")
		c.mu.Lock()
		if c.uploads[name] == nil {
			c.uploads[name] = map[string]bool{}
		}
		c.uploads[name][hex.EncodeToString(sum[:])] = true
		c.mu.Unlock()
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	c.s3.ServeHTTP(w, r)
}

// recordImprints is the authority, and records what it stamps.
func (c *campus) recordImprints(stamps http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if q, err := timestamp.ParseRequest(body); err == nil {
			c.mu.Lock()
			c.imprints = append(c.imprints, hex.EncodeToString(q.HashedMessage))
			c.mu.Unlock()
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		stamps.ServeHTTP(w, r)
	})
}

// start starts the server. Claims of a killed server end soon.
func (c *campus) start() *victim {
	c.t.Helper()
	path, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	v := &victim{Cmd: exec.Command(path, "serve", "--data", filepath.Join(c.at, "data"), "--listen", "127.0.0.1:0",
		"--log-level", "error", "--lease", "2s", "--sweep", "100ms", "--archive-tasks", "1",
		"--anchor-every", "off")} // its requests are no points
	v.Args[0] = observedName
	v.Env = append(os.Environ(), observerVariable+"="+c.points.url)
	v.Stderr = os.Stderr
	v.begin(c.t)
	c.t.Cleanup(func() {
		_ = v.Process.Kill() // if it has not ended
		_ = v.Wait()
	})
	return v
}
