package copies_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/edge/storage"
)

// service is an S3 service that accepts a number of parts and then breaks.
type service struct {
	url string

	mu      sync.Mutex // guards the rest
	accepts int        // parts until it breaks; negative: it does not
	parts   map[string]int
	locks   []string // mode and time of new objects
}

func newService(t *testing.T) *service {
	t.Helper()
	backend := s3mem.New()
	must(t, backend.CreateBucket("archive"))
	fake := gofakes3.New(backend).Server()
	s := &service{accepts: -1, parts: map[string]int{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.breaks(r) {
			panic(http.ErrAbortHandler) // the connection is cut
		}
		fake.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// breaks counts a request, and reports whether the service answers no more.
func (s *service) breaks(r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mode := r.Header.Get("X-Amz-Object-Lock-Mode"); mode != "" && strings.Contains(r.URL.Path, "large") {
		s.locks = append(s.locks, mode+" "+r.Header.Get("X-Amz-Object-Lock-Retain-Until-Date"))
	}
	part := r.URL.Query().Get("partNumber")
	if r.Method != http.MethodPut || part == "" {
		return false
	}
	if s.accepts == 0 {
		return true
	}
	s.accepts--
	s.parts[part]++
	return false
}

func (s *service) set(accepts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepts = accepts
}

// TestS3CutAtEveryPart cuts the upload of a large artifact after each of its parts, in a new process each time: no part
// is sent twice, the upload goes on, and the lock has the retention time of the copy.
func TestS3CutAtEveryPart(t *testing.T) {
	f := newFixture(t)
	const path = "large.bin"
	large := bytes.Repeat([]byte("0123456789abcdef"), (16<<20)/16) // four parts
	f.files[path] = large
	a, b := sha256.Sum256(large), sha512.Sum512(large)
	must(t, f.cat.Begin(t.Context(), catalog.Archive{Job: job, Source: "s", Created: start}))
	must(t, f.cat.PutArtifacts(t.Context(), job, []catalog.Artifact{{
		Path: path, Size: int64(len(large)), SHA256: hex.EncodeToString(a[:]), SHA512: hex.EncodeToString(b[:]),
		Role: catalog.Payload,
	}}))
	service := newService(t)
	save := func() error {
		locks := &copies.Locks{Mode: "COMPLIANCE"}
		at, err := storage.OpenS3(storage.S3Options{
			Endpoint: strings.TrimPrefix(service.url, "http://"), Insecure: true, Region: "us-east-1",
			Bucket: "archive", AccessKey: "key", SecretKey: "secret", PathStyle: true, PartSize: 5 << 20, Parallel: 1,
			Lock: locks.Lock,
		})
		must(t, err)
		s, err := copies.New(copies.Options{
			Catalog: f.cat, Now: func() time.Time { return f.now },
			Targets: []copies.Target{{Name: "s3", At: at, Locks: locks}},
		})
		must(t, err)
		_, err = s.Save(t.Context(), f.request())
		return err
	}
	for range 4 {
		service.set(1)
		if err := save(); err == nil {
			break
		}
	}
	service.set(0) // all parts are there
	must(t, save())
	for part, n := range service.parts {
		if n != 1 {
			t.Errorf("part %s was sent %d times", part, n)
		}
	}
	if len(service.parts) != 4 {
		t.Errorf("%d parts", len(service.parts))
	}
	lock := "COMPLIANCE " + f.request().Retain.Format(time.RFC3339)
	if locks := slices.Compact(service.locks); !slices.Equal(locks, []string{lock}) {
		t.Errorf("locks %q", locks)
	}
	all, err := f.cat.Copies(t.Context(), job, "")
	if must(t, err); len(all) != 1 || !all[0].Good() {
		t.Errorf("got %+v", all)
	}
}
