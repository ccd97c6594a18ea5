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
	aborted int      // uploads
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
	if r.Method == http.MethodDelete && r.URL.Query().Has("uploadId") {
		s.aborted++
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

// large enters an archive with an artifact of four parts.
func (f *fixture) large() {
	f.t.Helper()
	const path = "large.bin"
	large := bytes.Repeat([]byte("0123456789abcdef"), (16<<20)/16)
	f.files[path] = large
	a, b := sha256.Sum256(large), sha512.Sum512(large)
	must(f.t, f.cat.Begin(f.t.Context(), catalog.Archive{Job: job, Source: "s", Created: start}))
	must(f.t, f.cat.PutArtifacts(f.t.Context(), job, []catalog.Artifact{{
		Path: path, Size: int64(len(large)), SHA256: hex.EncodeToString(a[:]), SHA512: hex.EncodeToString(b[:]),
		Role: catalog.Payload,
	}}))
}

// store opens a store with the service as its only location.
func (s *service) store(f *fixture) *copies.Store {
	f.t.Helper()
	locks := &copies.Locks{Mode: "COMPLIANCE"}
	at, err := storage.OpenS3(storage.S3Options{
		Endpoint: strings.TrimPrefix(s.url, "http://"), Insecure: true, Region: "us-east-1",
		Bucket: "archive", AccessKey: "key", SecretKey: "secret", PathStyle: true, PartSize: 5 << 20, Parallel: 1,
		Lock: locks.Lock,
	})
	must(f.t, err)
	out, err := copies.New(copies.Options{
		Catalog: f.cat, Now: func() time.Time { return f.now },
		Targets: []copies.Target{{Name: "s3", At: at, Locks: locks}},
	})
	must(f.t, err)
	return out
}

// TestS3CutAtEveryPart cuts the upload of a large artifact after each of its parts, in a new process each time: no part
// is sent twice, the upload goes on, and the lock has the retention time of the copy.
func TestS3CutAtEveryPart(t *testing.T) {
	f, service := newFixture(t), newService(t)
	f.large()
	save := func() error {
		_, err := service.store(f).Save(t.Context(), f.request())
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

// TestAbandon removes the parts of an upload that is not finished, and leaves copies that are.
func TestAbandon(t *testing.T) {
	f, service := newFixture(t), newService(t)
	f.large()
	service.set(2)
	if _, err := service.store(f).Save(t.Context(), f.request()); err == nil {
		t.Fatal("the upload is complete")
	}
	for range 2 {
		must(t, service.store(f).Abandon(t.Context(), job))
	}
	if service.aborted != 1 {
		t.Errorf("%d uploads were aborted", service.aborted)
	}
	all, err := f.cat.Copies(t.Context(), job, "")
	if must(t, err); len(all) != 1 || all[0].Deleted.IsZero() || all[0].Progress != nil {
		t.Errorf("got %+v", all)
	}
	f = newFixture(t, "a")
	must(t, f.fill(2))
	_, err = f.store.Save(t.Context(), f.request())
	must(t, err)
	must(t, f.store.Abandon(t.Context(), job))
	f.stored("a", 2)
}
