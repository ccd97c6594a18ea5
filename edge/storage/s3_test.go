package storage_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/edge/storage"
	"github.com/stagepost/stagepost/edge/storage/storagetest"
)

// service is an S3 service in this process. before sees each request and may answer it.
type service struct {
	url    string
	fake   http.Handler
	before func(http.ResponseWriter, *http.Request) (answered bool)
	mu     sync.Mutex
	seen   []*http.Request
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{fake: newFake(t)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r)
		s.mu.Unlock()
		if s.before == nil || !s.before(w, r) {
			s.fake.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *service) options() storage.S3Options {
	return storage.S3Options{
		Endpoint: strings.TrimPrefix(s.url, "http://"), Insecure: true, Region: "us-east-1", Bucket: "archive",
		Prefix: "stagepost", AccessKey: "key", SecretKey: "secret", PathStyle: true, PartSize: 5 << 20,
	}
}

func (s *service) open(t *testing.T, change func(*storage.S3Options)) *storage.S3 {
	t.Helper()
	o := s.options()
	if change != nil {
		change(&o)
	}
	p, err := storage.OpenS3(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// requests counts those with a method whose URL contains a text.
func (s *service) requests(method, text string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.seen {
		if r.Method == method && strings.Contains(r.URL.String(), text) {
			n++
		}
	}
	return n
}

func TestS3(t *testing.T) {
	storagetest.Run(t, newService(t).open(t, nil), 11<<20)
}

// answer gives an error as S3 does.
func answer(w http.ResponseWriter, status int, code string) bool {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>planned</Message></Error>", code)
	return true
}

// cutUpload breaks the connection in the middle of the nth upload of a body.
func (s *service) cutUpload(nth int) {
	n := 0
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return false
		}
		s.mu.Lock()
		n++
		now := n == nth
		s.mu.Unlock()
		if now {
			_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength/2)
			panic(http.ErrAbortHandler)
		}
		return false
	}
}

// TestS3CutAtEveryPart: the connection breaks in each part; the next attempt sends only what the service lacks.
func TestS3CutAtEveryPart(t *testing.T) {
	const parts = 4
	b := storagetest.Bytes(parts*5<<20-1000, 1)
	for nth := 1; nth <= parts; nth++ {
		s := newService(t)
		p := s.open(t, func(o *storage.S3Options) { o.Parallel = 1 })
		s.cutUpload(nth)
		progress, states := storagetest.Saving()
		err := storagetest.Try(t, p, "a", b, progress)
		var e *storage.Error
		if !errors.As(err, &e) || !e.Temporary() {
			t.Fatalf("part %d: %v", nth, err)
		}
		storagetest.Missing(t, p, "a")
		s.before = nil
		sent := s.requests(http.MethodPut, "partNumber=")
		if err := storagetest.Try(t, p, "a", b, &storage.Progress{State: (*states)[len(*states)-1]}); err != nil {
			t.Fatal(err)
		}
		if got, want := s.requests(http.MethodPut, "partNumber=")-sent, parts-nth+1; got != want {
			t.Errorf("part %d: sent %d parts again, want %d", nth, got, want)
		}
		if n := s.requests(http.MethodPost, "?uploads="); n != 1 {
			t.Errorf("part %d: %d uploads were begun", nth, n)
		}
		if err := storage.Verify(t.Context(), p, "a", storagetest.Of(b), nil); err != nil {
			t.Error(err)
		}
	}
}

// TestS3LostAnswer: the service completes the upload, and its answer is lost.
func TestS3LostAnswer(t *testing.T) {
	s := newService(t)
	p := s.open(t, nil)
	fake := s.url
	for _, size := range []int{1000, 6 << 20} {
		key, b := fmt.Sprint(size), storagetest.Bytes(size, 1)
		lost := false
		s.before = func(w http.ResponseWriter, r *http.Request) bool {
			last := r.Method == http.MethodPost && strings.Contains(r.URL.RawQuery, "uploadId=") ||
				r.Method == http.MethodPut && r.URL.RawQuery == ""
			if lost || !last {
				return false
			}
			lost = true
			again, err := http.NewRequestWithContext(r.Context(), r.Method, fake+r.URL.RequestURI(), r.Body)
			if err != nil {
				t.Error(err)
				return false
			}
			again.Header, again.Host, again.ContentLength = r.Header, r.Host, r.ContentLength
			got, err := http.DefaultClient.Do(again)
			if err != nil || got.StatusCode != http.StatusOK {
				t.Errorf("got %+v, %v", got, err)
			}
			got.Body.Close()
			panic(http.ErrAbortHandler)
		}
		progress := &storage.Progress{}
		if err := storagetest.Try(t, p, key, b, progress); err == nil || !lost {
			t.Fatalf("%d bytes: no answer was lost: %v", size, err)
		}
		s.before = nil
		if err := storagetest.Try(t, p, key, b, progress); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
		if err := storage.Verify(t.Context(), p, key, storagetest.Of(b), nil); err != nil {
			t.Error(err)
		}
	}
}

// TestS3Errors classifies the errors of a service.
func TestS3Errors(t *testing.T) {
	s := newService(t)
	p := s.open(t, nil)
	for _, c := range []struct {
		status    int
		code      string
		temporary bool
	}{
		{503, "SlowDown", true}, {503, "ServiceUnavailable", true}, {500, "InternalError", true},
		{408, "RequestTimeout", true}, {403, "AccessDenied", false}, {403, "InvalidAccessKeyId", false},
		{403, "SignatureDoesNotMatch", false}, {404, "NoSuchBucket", false}, {400, "EntityTooLarge", false},
	} {
		s.before = func(w http.ResponseWriter, r *http.Request) bool {
			return r.Method == http.MethodPut && answer(w, c.status, c.code)
		}
		err := storagetest.Try(t, p, "e", []byte("x"), nil)
		var e *storage.Error
		if !errors.As(err, &e) || e.Temporary() != c.temporary {
			t.Errorf("%s: %v", c.code, err)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v has the secret", c.code, err)
		}
	}
}

// TestS3Damage: a service that keeps other bytes than it was sent.
func TestS3Damage(t *testing.T) {
	s := newService(t)
	p := s.open(t, nil)
	b := storagetest.Bytes(1000, 1)
	storagetest.Put(t, p, "d", b)
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet {
			return false
		}
		changed := bytes.Clone(b)
		changed[500] ^= 1
		w.Header().Set("ETag", `"x"`)
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		_, _ = w.Write(changed)
		return true
	}
	err := storage.Verify(t.Context(), p, "d", storagetest.Of(b), nil)
	var e *storage.Error
	if !errors.Is(err, storage.ErrDamage) || !errors.As(err, &e) || e.Temporary() {
		t.Errorf("got %v", err)
	}
}

// TestS3Lock: each way of sending a file passes the lock on, and none overwrites.
func TestS3Lock(t *testing.T) {
	s := newService(t)
	until := time.Date(2040, 1, 2, 3, 4, 5, 0, time.UTC)
	p := s.open(t, func(o *storage.S3Options) {
		o.Lock = func(key string) (string, time.Time) {
			if key == "free" {
				return "", time.Time{}
			}
			return "COMPLIANCE", until
		}
	})
	locked := func(r *http.Request) bool {
		return r.Header.Get("X-Amz-Object-Lock-Mode") == "COMPLIANCE" &&
			r.Header.Get("X-Amz-Object-Lock-Retain-Until-Date") == until.Format(time.RFC3339)
	}
	storagetest.Put(t, p, "small", storagetest.Bytes(10, 1))
	storagetest.Put(t, p, "large", storagetest.Bytes(6<<20, 1))
	storagetest.Put(t, p, "free", storagetest.Bytes(10, 1))
	s.mu.Lock()
	defer s.mu.Unlock()
	begun := 0
	for _, r := range s.seen {
		whole, post := r.Method == http.MethodPut && r.URL.RawQuery == "", r.Method == http.MethodPost
		first := whole || post && r.URL.Query().Has("uploads")
		last := whole || post && r.URL.Query().Has("uploadId")
		if want := !strings.HasSuffix(r.URL.Path, "/free"); first && locked(r) != want {
			t.Errorf("%s %s: the lock is %v", r.Method, r.URL, r.Header)
		}
		if last && r.Header.Get("If-None-Match") != "*" {
			t.Errorf("%s %s overwrites", r.Method, r.URL)
		}
		if first {
			begun++
		}
	}
	if begun != 3 {
		t.Errorf("%d files were sent", begun)
	}
}

// TestS3Hold: a legal hold is set and released by the requests of S3; a missing file and a refusal are different
// errors.
func TestS3Hold(t *testing.T) {
	s := newService(t)
	p := s.open(t, nil)
	storagetest.Put(t, p, "file", storagetest.Bytes(10, 1))
	var got []string
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if !r.URL.Query().Has("legal-hold") {
			return false
		}
		body, _ := io.ReadAll(r.Body)
		for _, status := range []string{"ON", "OFF"} {
			if strings.Contains(string(body), "<Status>"+status+"</Status>") {
				got = append(got, r.Method+" "+r.URL.Path+" "+status)
			}
		}
		switch path.Base(r.URL.Path) {
		case "missing":
			return answer(w, http.StatusNotFound, "NoSuchKey")
		case "refused":
			return answer(w, http.StatusBadRequest, "InvalidRequest")
		case "busy":
			return answer(w, http.StatusServiceUnavailable, "SlowDown")
		}
		w.WriteHeader(http.StatusOK)
		return true
	}
	for _, on := range []bool{true, false} {
		if err := p.Hold(t.Context(), "file", on); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"PUT /archive/stagepost/file ON", "PUT /archive/stagepost/file OFF"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if err := p.Hold(t.Context(), "missing", true); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	for key, transient := range map[string]bool{"refused": false, "busy": true} {
		var e *storage.Error
		if err := p.Hold(t.Context(), key, true); !errors.As(err, &e) || e.Temporary() != transient {
			t.Errorf("%s: %v", key, err)
		}
	}
	if p.Hold(t.Context(), "../x", true) == nil {
		t.Error("an invalid key is accepted")
	}
}

// TestS3Recall asks a slow service once, and waits for its copy.
func TestS3Recall(t *testing.T) {
	s := newService(t)
	p := s.open(t, func(o *storage.S3Options) { o.Tier = storage.Slow })
	storagetest.Put(t, p, "old", []byte("x"))
	class, restore, asked := "GLACIER", "", 0
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.Method == http.MethodHead:
			h := w.Header()
			h.Set("X-Amz-Storage-Class", class)
			h.Set("ETag", `"x"`)
			h.Set("Content-Length", "1")
			h.Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
			if restore != "" {
				h.Set("X-Amz-Restore", restore)
			}
			return true
		case r.Method == http.MethodPost && r.URL.Query().Has("restore"):
			asked++
			if restore != "" {
				return answer(w, http.StatusConflict, "RestoreAlreadyInProgress")
			}
			restore = `ongoing-request="true"`
			w.WriteHeader(http.StatusAccepted)
			return true
		}
		return false
	}
	for i, want := range []bool{false, false, true} {
		if i == 2 {
			restore = `ongoing-request="false", expiry-date="Fri, 21 Dec 2040 00:00:00 GMT"`
		}
		if ready, err := p.Recall(t.Context(), "old"); err != nil || ready != want {
			t.Errorf("%d: %t, %v", i, ready, err)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	class = "DEEP_ARCHIVE"
	restore = ""
	if ready, err := p.Recall(t.Context(), "old"); err != nil || ready {
		t.Errorf("got %t, %v", ready, err)
	}
}

// TestS3Bucket: a bucket that does not exist is named.
func TestS3Bucket(t *testing.T) {
	p := newService(t).open(t, func(o *storage.S3Options) { o.Bucket = "other" })
	if _, err := p.Free(t.Context()); err == nil || !strings.Contains(err.Error(), "other") {
		t.Errorf("got %v", err)
	}
}
