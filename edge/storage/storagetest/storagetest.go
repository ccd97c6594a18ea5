// Package storagetest checks that a location keeps the contract of package storage.
package storagetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stagepost/stagepost/edge/storage"
)

// Of gives what a file with these bytes contains.
func Of(b []byte) storage.Content {
	sum := sha256.Sum256(b)
	return storage.Content{Size: int64(len(b)), SHA256: hex.EncodeToString(sum[:])}
}

// Bytes makes n bytes that are random and depend on the seed.
func Bytes(n int, seed uint64) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = r.Read(b)
	return b
}

// Try stores bytes; p may be nil.
func Try(t *testing.T, at storage.Location, key string, b []byte, p *storage.Progress) error {
	t.Helper()
	return at.Put(t.Context(), key, bytes.NewReader(b), Of(b), p)
}

// Saving gives a progress that keeps each state.
func Saving() (p *storage.Progress, states *[]json.RawMessage) {
	states = new([]json.RawMessage)
	return &storage.Progress{Save: func(s json.RawMessage) error {
		*states = append(*states, bytes.Clone(s))
		return nil
	}}, states
}

// Put stores bytes and fails the test if that fails.
func Put(t *testing.T, p storage.Location, key string, b []byte) {
	t.Helper()
	if err := Try(t, p, key, b, nil); err != nil {
		t.Fatal(err)
	}
}

// Read reads a file from an offset to its end.
func Read(t *testing.T, p storage.Location, key string, offset int64) []byte {
	t.Helper()
	r, err := p.Open(t.Context(), key, offset)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Missing fails the test unless there is nothing under a key.
func Missing(t *testing.T, p storage.Location, key string) {
	t.Helper()
	if s, err := p.Stat(t.Context(), key); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is there: %+v, %v", key, s, err)
	}
}

// Run checks a location that is empty. large is a size at which the location sends a file in several steps.
func Run(t *testing.T, p storage.Location, large int) {
	t.Run("put and read", func(t *testing.T) { putAndRead(t, p, large) })
	t.Run("other content", func(t *testing.T) { otherContent(t, p, large) })
	t.Run("wrong source", func(t *testing.T) { wrongSource(t, p, large) })
	t.Run("delete", func(t *testing.T) { deletes(t, p) })
	t.Run("keys", func(t *testing.T) { keys(t, p) })
	t.Run("continued", func(t *testing.T) { continued(t, p, large) })
	t.Run("abandoned", func(t *testing.T) { abandoned(t, p, large) })
	t.Run("two at once", func(t *testing.T) { twoAtOnce(t, p, large) })
	t.Run("cancelled", func(t *testing.T) { cancelled(t, p, large) })
	t.Run("state", func(t *testing.T) { state(t, p) })
}

// putAndRead stores files of several sizes, reads them whole and from their middle, and stores them again.
func putAndRead(t *testing.T, p storage.Location, large int) {
	for i, size := range []int{0, 1, 4096, 1 << 20, large} {
		key, b := fmt.Sprintf("plain/%d/ü ’%d.bin", size, i), Bytes(size, uint64(i))
		Put(t, p, key, b)
		s, err := p.Stat(t.Context(), key)
		if err != nil || s.Size != int64(size) || s.SHA256 != "" && s.SHA256 != Of(b).SHA256 {
			t.Errorf("%d bytes: %+v, %v", size, s, err)
		}
		if got := Read(t, p, key, 0); !bytes.Equal(got, b) {
			t.Errorf("%d bytes: read %d others", size, len(got))
		}
		if size > 1 {
			if got := Read(t, p, key, int64(size/2)); !bytes.Equal(got, b[size/2:]) {
				t.Errorf("from %d: read %d bytes", size/2, len(got))
			}
		}
		if err := storage.Verify(t.Context(), p, key, Of(b), nil); err != nil {
			t.Error(err)
		}
		Put(t, p, key, b) // a Put whose result was not known
	}
}

// otherContent checks that a key that has a file takes no other content, and that its file stays.
func otherContent(t *testing.T, p storage.Location, large int) {
	for _, size := range []int{1000, large} {
		key, b := fmt.Sprintf("other/%d", size), Bytes(size, 1)
		Put(t, p, key, b)
		for _, other := range [][]byte{Bytes(size, 2), Bytes(size+1, 1), nil} {
			final(t, Try(t, p, key, other, nil), storage.ErrExists)
			err := storage.Verify(t.Context(), p, key, Of(other), nil)
			var d *storage.Difference
			if !errors.Is(err, storage.ErrDamage) || !errors.As(err, &d) || d.SHA256 != Of(b).SHA256 ||
				d.Size != int64(size) {
				t.Errorf("verified as other content: %v", err)
			}
		}
		if err := storage.Verify(t.Context(), p, key, Of(b), nil); err != nil {
			t.Error(err)
		}
	}
}

// wrongSource checks that a source that is changed or too short stores nothing.
func wrongSource(t *testing.T, p storage.Location, large int) {
	for _, size := range []int{1000, large} {
		key, b := fmt.Sprintf("source/%d", size), Bytes(size, 1)
		changed := bytes.Clone(b)
		changed[size/2] ^= 1
		final(t, p.Put(t.Context(), key, bytes.NewReader(changed), Of(b), &storage.Progress{}), storage.ErrSource)
		short := bytes.NewReader(b[:size-1])
		final(t, p.Put(t.Context(), key, short, Of(b), &storage.Progress{}), storage.ErrSource)
		Missing(t, p, key)
		Put(t, p, key, b)
	}
}

// deletes checks that a deletion removes its file alone, and may be repeated.
func deletes(t *testing.T, p storage.Location) {
	Put(t, p, "gone/a/b/c", []byte("x"))
	Put(t, p, "gone/a/d", []byte("y"))
	for range 2 {
		if err := p.Delete(t.Context(), "gone/a/b/c"); err != nil {
			t.Error(err)
		}
	}
	Missing(t, p, "gone/a/b/c")
	if got := Read(t, p, "gone/a/d", 0); string(got) != "y" {
		t.Errorf("got %q", got)
	}
	if _, err := p.Open(t.Context(), "gone/a/b/c", 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// keys checks that each operation refuses a key that is not valid.
func keys(t *testing.T, p storage.Location) {
	for _, key := range []string{
		"", "/a", "a/", "a//b", "../a", "a/../b", ".", ".part", "a/.b", "a\x00", "a\nb", `a\b`, "a.", "a /b",
	} {
		final(t, p.Put(t.Context(), key, bytes.NewReader(nil), Of(nil), nil), storage.ErrKey)
		_, err := p.Open(t.Context(), key, 0)
		final(t, err, storage.ErrKey)
		_, err = p.Stat(t.Context(), key)
		final(t, err, storage.ErrKey)
		final(t, p.Delete(t.Context(), key), storage.ErrKey)
		final(t, p.Abandon(t.Context(), key, nil), storage.ErrKey)
	}
}

// abandoned checks that an abandoned Put leaves no file, and that a later one succeeds with the old state.
func abandoned(t *testing.T, p storage.Location, large int) {
	b := Bytes(large, 5)
	progress, _ := Saving()
	broken := cut{bytes.NewReader(b), int64(large) - 10}
	if err := p.Put(t.Context(), "left/a", broken, Of(b), progress); !errors.Is(err, errCut) {
		t.Fatalf("got %v", err)
	}
	for range 2 {
		if err := p.Abandon(t.Context(), "left/a", progress); err != nil {
			t.Error(err)
		}
	}
	Missing(t, p, "left/a")
	if err := Try(t, p, "left/a", b, progress); err != nil { // its state is of no use
		t.Error(err)
	}
	if err := p.Abandon(t.Context(), "left/a", progress); err != nil {
		t.Error(err)
	}
	if err := storage.Verify(t.Context(), p, "left/a", Of(b), nil); err != nil {
		t.Error(err)
	}
}

// twoAtOnce checks that of two contents that are stored under one key at once, one wins, and is stored whole.
func twoAtOnce(t *testing.T, p storage.Location, large int) {
	a, b := Bytes(large, 6), Bytes(large, 7)
	var done sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		done.Go(func() {
			content := [][]byte{a, b}[i%2]
			errs[i] = p.Put(t.Context(), "race/a", bytes.NewReader(content), Of(content), nil)
		})
	}
	done.Wait()
	won := 0
	if errs[1] == nil {
		won = 1
	}
	for i, err := range errs {
		if i%2 == won && err != nil || i%2 != won && !errors.Is(err, storage.ErrExists) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if err := storage.Verify(t.Context(), p, "race/a", Of([][]byte{a, b}[won]), nil); err != nil {
		t.Error(err)
	}
}

// cancelled checks that a Put whose context has ended stores nothing.
func cancelled(t *testing.T, p storage.Location, large int) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := Bytes(large, 8)
	if err := p.Put(ctx, "cancelled", bytes.NewReader(b), Of(b), nil); err == nil {
		t.Error("stored")
	}
	Missing(t, p, "cancelled")
}

// state checks the free space, the recall and the properties of the location.
func state(t *testing.T, p storage.Location) {
	if free, err := p.Free(t.Context()); err != nil || free == 0 {
		t.Errorf("free: %d, %v", free, err)
	}
	Put(t, p, "state", []byte("x"))
	if ready, err := p.Recall(t.Context(), "state"); err != nil || !ready {
		t.Errorf("recall: %t, %v", ready, err)
	}
	if p.Properties().Name == "" || p.Properties().Tier == "" {
		t.Errorf("got %+v", p.Properties())
	}
}

// final fails the test unless an error has the kind, and states that a later attempt fails as well.
func final(t *testing.T, err, kind error) {
	t.Helper()
	var e *storage.Error
	if !errors.Is(err, kind) || !errors.As(err, &e) || e.Temporary() {
		t.Errorf("got %v, want %v", err, kind)
	}
}

var errCut = errors.New("the source cannot be read")

// cut is a source that cannot be read from an offset on.
type cut struct {
	io.ReaderAt
	at int64
}

func (c cut) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > c.at {
		return 0, errCut
	}
	return c.ReaderAt.ReadAt(p, off)
}

// continued interrupts a Put at several points, and continues with the state that was saved last. A caller that crashed
// before it saved the state continues with an older one.
func continued(t *testing.T, p storage.Location, large int) {
	b := Bytes(large, 3)
	for i, at := range []int64{1, int64(large) / 3, int64(large) * 2 / 3, int64(large) - 1} {
		for _, older := range []bool{false, true} {
			key := fmt.Sprintf("continued/%d-%t", i, older)
			progress, states := Saving()
			err := p.Put(t.Context(), key, cut{bytes.NewReader(b), at}, Of(b), progress)
			var e *storage.Error
			if !errors.Is(err, errCut) || !errors.As(err, &e) || !e.Temporary() {
				t.Fatalf("got %v", err)
			}
			Missing(t, p, key)
			again := &storage.Progress{}
			if n := len(*states); n > 0 && !older {
				again.State = (*states)[n-1]
			} else if n > 1 {
				again.State = (*states)[n-2]
			}
			if err := Try(t, p, key, b, again); err != nil {
				t.Fatal(err)
			}
			if err := storage.Verify(t.Context(), p, key, Of(b), nil); err != nil {
				t.Error(err)
			}
		}
	}
	key := "continued/unsaved" // the caller cannot save the state: nothing depends on it
	progress := &storage.Progress{Save: func(json.RawMessage) error { return errCut }}
	if err := Try(t, p, key, b, progress); err == nil {
		return // a location without states
	} else if !errors.Is(err, errCut) {
		t.Errorf("got %v", err)
	}
	Missing(t, p, key)
	Put(t, p, key, b)
}
