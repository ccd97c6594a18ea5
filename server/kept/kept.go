// Package kept keeps the answers of requests with an idempotency key that create no job, in a directory that servers
// may share: a repetition gets the answer of the first request, at another server and after a restart too. A record of
// a job has its key itself.
//
// Each request has a file, which is locked while the request is carried out. A server that ends before it has written
// the answer leaves an empty file or a part: a repetition is carried out then, as after a refusal.
package kept

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/stagepost/stagepost/internal/dirlock"
)

// Bounds of what is kept. When there is more, the oldest answers are removed.
const (
	For     = time.Hour
	Most    = 10_000
	Bytes   = 32 << 20 // of the files
	perTidy = 100      // by so many answers each server may exceed them
)

// Sum is a SHA-256.
type Sum = [sha256.Size]byte

// Answer is the answer to a request.
type Answer struct {
	At      time.Time   `json:"at"`
	Request []byte      `json:"request"` // Sum of what was requested
	Status  int         `json:"status"`
	Header  http.Header `json:"header,omitempty"`
	Body    []byte      `json:"body"`
}

// Answers are the answers in a directory, by name. It is made when it is needed.
type Answers struct {
	Dir string

	mu   sync.Mutex // guards the rest
	next time.Time  // of tidy
	made int        // since the last tidy
}

// Held is the right to carry a request out and to keep its answer. Its owner calls Keep or Drop.
type Held struct {
	file *os.File
	name string
}

// Begin returns the answer of the request with a name, or nil and the right to make it. It waits while the request is
// carried out elsewhere, until ctx ends.
func (a *Answers) Begin(ctx context.Context, name Sum, now time.Time) (*Answer, *Held, error) {
	path := filepath.Join(a.Dir, hex.EncodeToString(name[:]))
	a.tidy(now)
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if errors.Is(err, fs.ErrNotExist) {
			if err = os.MkdirAll(a.Dir, 0o700); err == nil {
				continue
			}
		}
		if err != nil {
			return nil, nil, err
		}
		if err := lock(ctx, f); err != nil {
			return nil, nil, errors.Join(err, f.Close())
		}
		if !same(f, path) { // it was removed meanwhile
			if err := f.Close(); err != nil {
				return nil, nil, err
			}
			continue
		}
		one, err := read(f)
		if err != nil || one != nil && now.Sub(one.At) < For {
			return one, nil, errors.Join(err, f.Close())
		}
		return nil, &Held{f, path}, nil
	}
}

// lock waits for the lock of a file. Its owner may be at another machine, which sends no signal.
func lock(ctx context.Context, f *os.File) error {
	const first, longest = 5 * time.Millisecond, 200 * time.Millisecond
	for pause := first; ; pause = min(2*pause, longest) {
		if err := dirlock.TryLock(f); !errors.Is(err, dirlock.Err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

func same(f *os.File, path string) bool {
	of, err := f.Stat()
	if err != nil {
		return false
	}
	at, err := os.Stat(path)
	return err == nil && os.SameFile(of, at)
}

// read returns the answer in a file, nil if there is no whole one.
func read(f *os.File) (*Answer, error) {
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	one := &Answer{}
	if json.Unmarshal(text, one) != nil {
		return nil, nil
	}
	return one, nil
}

// Keep keeps the answer. After an error nothing is kept.
func (h *Held) Keep(one *Answer) error {
	text, err := json.Marshal(one)
	if err == nil {
		err = h.file.Truncate(0)
	}
	if err == nil {
		_, err = h.file.WriteAt(text, 0)
	}
	if err == nil {
		err = h.file.Sync()
	}
	if err != nil {
		h.Drop()
		return err
	}
	return h.file.Close()
}

// Drop leaves the request to a repetition.
func (h *Held) Drop() {
	_ = os.Remove(h.name)
	_ = h.file.Close()
}

// file is a file of the directory.
type file struct {
	path string
	at   time.Time
	size int64
}

// tidy removes answers that are too old or too many, once a minute and after every perTidy requests. What fails is
// tried again by a later one, or by another server.
func (a *Answers) tidy(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.made++; now.Before(a.next) && a.made < perTidy {
		return
	}
	a.next, a.made = now.Add(time.Minute), 0
	entries, err := os.ReadDir(a.Dir)
	if err != nil {
		return // there is none yet
	}
	var all []file
	bytes := int64(0)
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() {
			all = append(all, file{filepath.Join(a.Dir, e.Name()), info.ModTime(), info.Size()})
			bytes += info.Size()
		}
	}
	slices.SortFunc(all, func(a, b file) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.path, b.path)) })
	for i, f := range all {
		if now.Sub(f.at) < For && len(all)-i <= Most && bytes <= Bytes {
			return
		}
		if remove(f.path) {
			bytes -= f.size
		}
	}
}

// remove removes a file that no request has locked.
func remove(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return dirlock.TryLock(f) == nil && os.Remove(path) == nil
}
