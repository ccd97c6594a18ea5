package storage_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/stagepost/stagepost/edge/storage"
	"github.com/stagepost/stagepost/edge/storage/storagetest"
)

// TestS3LostUpload: the process crashes when the service has created an upload, and before the id of the upload is
// recorded. The repetition, or the end without one, leaves no upload of the key; those of other keys stay.
func TestS3LostUpload(t *testing.T) {
	for _, end := range []string{"put", "abandon", "not allowed"} {
		t.Run(end, func(t *testing.T) {
			s, b := newService(t), storagetest.Bytes(6<<20, 1)
			p := s.open(t, nil)
			lost := lose(t, s, "a")
			lose(t, s, "ab")
			if got, want := s.uploads(t), []string{"stagepost/a", "stagepost/ab"}; !slices.Equal(got, want) {
				t.Fatalf("uploads of %q", got)
			}
			s.before = nil
			want := []string{"stagepost/ab"}
			switch end {
			case "put":
				if err := storagetest.Try(t, p, "a", b, &storage.Progress{State: lost}); err != nil {
					t.Fatal(err)
				}
			case "abandon":
				if err := p.Abandon(t.Context(), "a", &storage.Progress{State: lost}); err != nil {
					t.Fatal(err)
				}
			case "not allowed": // the file is stored nevertheless
				want = []string{"stagepost/a", "stagepost/ab"}
				s.before = func(w http.ResponseWriter, r *http.Request) bool {
					return r.Method == http.MethodGet && r.URL.Query().Has("uploads") &&
						answer(w, http.StatusForbidden, "AccessDenied")
				}
				if err := storagetest.Try(t, p, "a", b, &storage.Progress{State: lost}); err != nil {
					t.Fatal(err)
				}
			}
			s.before = nil
			if got := s.uploads(t); !slices.Equal(got, want) {
				t.Errorf("uploads of %q remain", got)
			}
		})
	}
}

// lose begins an upload whose id is lost, and gives the state that was recorded.
func lose(t *testing.T, s *service, key string) []byte {
	t.Helper()
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || !r.URL.Query().Has("uploads") {
			return false
		}
		s.fake.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
	progress, states := storagetest.Saving()
	if err := storagetest.Try(t, s.open(t, nil), key, storagetest.Bytes(6<<20, 1), progress); err == nil {
		t.Fatal("the upload went on")
	}
	return (*states)[len(*states)-1]
}

// uploads lists the keys of uploads that have not ended.
func (s *service) uploads(t *testing.T) (keys []string) {
	t.Helper()
	w := httptest.NewRecorder()
	s.fake.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/archive?uploads", nil))
	for _, part := range bytes.Split(w.Body.Bytes(), []byte("<Upload>"))[1:] {
		_, rest, _ := bytes.Cut(part, []byte("<Key>"))
		key, _, _ := bytes.Cut(rest, []byte("</Key>"))
		keys = append(keys, string(key))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// newFake is an S3 service with a bucket.
func newFake(t *testing.T) http.Handler {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("archive"); err != nil {
		t.Fatal(err)
	}
	return gofakes3.New(backend).Server()
}
