package tus

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/internal/durable"
)

// Options of a store. Dir is required.
type Options struct {
	Dir     string        // of its own; created if it is missing
	MaxSize int64         // bytes of one upload; defaults to 64 GiB
	Keep    time.Duration // after the last byte, until an upload expires; defaults to 24 h
	// after which a silent writing request yields to another of the same upload; defaults to 5 s
	Silence time.Duration
	Idle    time.Duration // after which a silent sender is disconnected; defaults to 30 s

	// Owner returns the owner of a request. For uploads of others a request gets 404. Defaults to one owner for all.
	Owner func(*http.Request) string

	// MayCreate refuses an upload of so many bytes, MaxSize if its length is deferred. Calls are serialized and the
	// upload counts in [Store.Used] before the next call, so no two can share the last of a quota. The refusal is
	// answered with its text and 403, or with the status of a method `HTTPStatus() int` of the error. Defaults to
	// none.
	MayCreate func(owner string, bytes int64) error

	// Space refuses so many more bytes for lack of space: when an upload of a known length is created, and every 16
	// MiB of a write. The refusal is answered like one of MayCreate, by default with 507. Defaults to none.
	Space func(bytes int64) error

	// Fail writes a refusal. With status 500 the error is for the log, not for the client. Defaults to plain text.
	Fail func(w http.ResponseWriter, r *http.Request, status int, err error)

	Clock func() time.Time // defaults to time.Now
}

// Upload is a complete upload for the application.
type Upload struct {
	ID       string
	Name     string // the metadata filename or name, untrusted
	Path     string
	Size     int64
	SHA256   string // hexadecimal
	Metadata map[string]string
}

// Errors of Take, Return and Remove.
var (
	ErrNotFound   = errors.New("there is no such upload")
	ErrIncomplete = errors.New("the upload is not complete")
	ErrBusy       = errors.New("the upload is being written to or has been taken")
)

// Store keeps uploads. It is safe for concurrent use, also of several stores on one directory.
type Store struct {
	o        Options
	root     *os.Root
	creating sync.Mutex // held from the call of MayCreate until the upload counts

	mu      sync.Mutex         // guards uploads, and the fields of each except those that upload excludes
	uploads map[string]*upload // that requests needed; those of other stores may have changed
}

// New opens the store in a directory.
func New(o Options) (*Store, error) {
	if o.Dir == "" {
		return nil, errors.New("tus: the option Dir is missing")
	}
	if o.MaxSize <= 0 {
		o.MaxSize = 64 << 30
	}
	if o.Keep <= 0 {
		o.Keep = 24 * time.Hour
	}
	if o.Silence <= 0 {
		o.Silence = 5 * time.Second
	}
	if o.Idle <= 0 {
		o.Idle = 30 * time.Second
	}
	if o.Owner == nil {
		o.Owner = func(*http.Request) string { return "" }
	}
	if o.MayCreate == nil {
		o.MayCreate = func(string, int64) error { return nil }
	}
	if o.Space == nil {
		o.Space = func(int64) error { return nil }
	}
	if o.Fail == nil {
		o.Fail = func(w http.ResponseWriter, _ *http.Request, status int, err error) { failPlain(w, status, err) }
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("tus: %w", err)
	}
	o.Dir = dir
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("tus: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("tus: %w", err)
	}
	return &Store{o: o, root: root, uploads: map[string]*upload{}}, nil
}

// Close releases the directory, and what the application has taken. It is called when no request is running.
func (s *Store) Close() error {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.uploads))
	s.mu.Unlock()
	for _, u := range all {
		s.unlock(u)
	}
	return s.root.Close()
}

// read reads one upload as it is on the disk. It is nil if there is none with readable files; only a failing disk is an
// error.
func (s *Store) read(id string) (*upload, error) {
	text, err := s.root.ReadFile(id + infoEnding)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	u := &upload{id: id}
	if json.Unmarshal(text, &u.info) != nil {
		return nil, nil
	}
	stat, err := s.root.Stat(id + dataEnding)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	u.offset, u.used = stat.Size(), stat.ModTime()
	return u, nil
}

// repair truncates the bytes of an upload that do not count: they are unverified, or more than its length. Their writer
// has ended, because the caller has the lock.
func (s *Store) repair(u *upload) error {
	proved := u.offset
	if u.info.Unproved != nil {
		proved = min(proved, *u.info.Unproved)
	}
	if u.info.Length != nil {
		proved = min(proved, *u.info.Length)
	}
	if proved < u.offset {
		if err := s.cut(u, proved); err != nil {
			return err
		}
		u.offset = proved
	}
	if u.info.Unproved == nil {
		return nil
	}
	u.info.Unproved = nil
	return s.write(u)
}

// list brings the uploads in memory up to those on the disk: other stores create and remove some.
func (s *Store) list() error {
	entries, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), infoEnding)
		if !ok || !validID(id) {
			continue
		}
		u, err := s.known(id)
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name(), err)
		}
		there[id] = u != nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, u := range s.uploads {
		if !there[id] && u.writer == nil && !u.taken {
			delete(s.uploads, id) // one that was created since then is read again when it is needed
		}
	}
	return nil
}

// known returns an upload, which it reads if it is not in memory yet, or if its length is not known. It is nil if there
// is none.
func (s *Store) known(id string) (*upload, error) {
	s.mu.Lock()
	u := s.uploads[id]
	certain := u != nil && (u.info.Length != nil || u.writer != nil)
	s.mu.Unlock()
	if certain {
		return u, nil
	}
	now, err := s.read(id)
	if err != nil || now == nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch u = s.uploads[id]; {
	case u == nil:
		s.uploads[id] = now
		return now, nil
	case u.writer == nil:
		u.info.Length = now.info.Length
	}
	return u, nil
}

// Used returns the number of an owner's uploads and the bytes that they may reach: their part of the quota.
func (s *Store) Used(owner string) (uploads int, bytes int64, err error) {
	if err := s.list(); err != nil {
		return 0, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.uploads {
		if u.info.Owner != owner {
			continue
		}
		uploads++
		if u.info.Length != nil {
			bytes += *u.info.Length
		} else {
			bytes += s.o.MaxSize
		}
	}
	return uploads, bytes, nil
}

// find returns an upload of an owner. For other owners it does not exist, which is ErrNotFound.
func (s *Store) find(id, owner string) (*upload, error) {
	if !validID(id) {
		return nil, ErrNotFound
	}
	u, err := s.known(id)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if u == nil || u.info.Owner != owner {
		return nil, ErrNotFound
	}
	return u, nil
}

// validID reports whether a name may be that of an upload; only such names are used as paths.
func validID(id string) bool {
	if len(id) != idLength {
		return false
	}
	for _, c := range []byte(id) {
		if (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}

// idLength is the length of crypto/rand.Text: 130 bits, which cannot be guessed.
const idLength = 26

func newID() string { return rand.Text() }
