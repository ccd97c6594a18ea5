package copies

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/edge/storage"
)

// ErrRecalled is wrapped by an error of an artifact that only slow locations have: they were asked for it.
var ErrRecalled = errors.New("it is being recalled from a slow storage location: try again later")

// ReadError is an artifact that no location gives now.
type ReadError struct {
	Job, Path string
	Errs      []error // of the locations
	Transient bool
}

// Error names each cause.
func (e *ReadError) Error() string {
	all := make([]string, len(e.Errs))
	for i, err := range e.Errs {
		all[i] = err.Error()
	}
	if len(all) == 0 {
		all = []string{"there is no good copy"}
	}
	return fmt.Sprintf("read %s of archive %s: %s", e.Path, e.Job, strings.Join(all, "; "))
}

// Unwrap gives the causes.
func (e *ReadError) Unwrap() []error { return e.Errs }

// Temporary reports whether a later attempt can succeed.
func (e *ReadError) Temporary() bool { return e.Transient }

// good gives the copies of an artifact that can be read as far as is known: those last of which a read gave wrong bytes
// since their newest fixity check, then the quickest tier first, then those that were checked last.
func (s *Store) good(ctx context.Context, job, path string) (good []catalog.Copy, err error) {
	all, err := s.o.Catalog.Copies(ctx, job, path)
	for _, c := range all {
		if c.Good() && s.target(c.Location) != nil {
			good = append(good, c)
		}
	}
	doubted := s.doubts.of(good)
	slices.SortStableFunc(good, func(a, b catalog.Copy) int {
		switch d := doubted[a.CopyKey]; {
		case d == doubted[b.CopyKey]:
		case d:
			return 1
		default:
			return -1
		}
		if r := rank(s.target(a.Location)) - rank(s.target(b.Location)); r != 0 {
			return r
		}
		return b.LastFixity.Compare(a.LastFixity)
	})
	return good, err
}

// Open reads an artifact from an offset to its end, from the best copy. If the copy cannot be read on, the reader
// continues with the next one. A read of the whole artifact ends in an error that wraps [storage.ErrDamage] if its
// digest is wrong, and does not give its last bytes, so that a reader that counts bytes notices it, too. The fixity
// check of the copy is then due, and until then the other copies are read first. If only slow locations have the
// artifact, the error wraps [ErrRecalled] until one of them can give it.
func (s *Store) Open(ctx context.Context, job, path string, offset int64) (io.ReadCloser, error) {
	a, err := s.o.Catalog.Artifact(ctx, job, path)
	if err != nil {
		return nil, err
	}
	if offset < 0 || offset > a.Size {
		return nil, fmt.Errorf("read %s of archive %s: the offset %d is not within %d bytes", path, job, offset, a.Size)
	}
	good, err := s.good(ctx, job, path)
	if err != nil {
		return nil, err
	}
	r := &reader{ctx: ctx, s: s, of: a, rest: good, at: offset, failure: &ReadError{Job: job, Path: path}}
	if offset == 0 {
		r.sum = sha256.New()
	}
	if err := r.advance(); err != nil {
		return nil, err
	}
	return r, nil
}

// reader reads an artifact from its copies, one after another.
type reader struct {
	ctx     context.Context
	s       *Store
	of      catalog.Artifact
	rest    []catalog.Copy // not tried
	now     catalog.Copy
	from    io.ReadCloser
	at      int64
	sum     hash.Hash // nil: only a part is read
	used    []catalog.Copy
	failure *ReadError
	failed  error // the digest is wrong
}

// doubts are copies of which a read gave wrong bytes, until they are checked. They are in memory only: after a restart
// their checks are still due. The zero value has none.
type doubts struct {
	mu  sync.Mutex
	all map[catalog.CopyKey]time.Time // the newest fixity check before the read
}

func (d *doubts) add(c catalog.Copy) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = map[catalog.CopyKey]time.Time{}
	}
	d.all[c.CopyKey] = c.LastFixity
}

// of gives those among copies that are in doubt, and forgets those that were checked since.
func (d *doubts) of(copies []catalog.Copy) map[catalog.CopyKey]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := map[catalog.CopyKey]bool{}
	for _, c := range copies {
		checked, ok := d.all[c.CopyKey]
		if ok && c.LastFixity.After(checked) {
			delete(d.all, c.CopyKey)
			ok = false
		}
		found[c.CopyKey] = ok
	}
	return found
}

// advance opens the next copy.
func (r *reader) advance() error {
	for len(r.rest) > 0 {
		r.now, r.rest = r.rest[0], r.rest[1:]
		t := r.s.used(r.now.Location)
		err := recall(r.ctx, t, r.now.Key)
		if err == nil {
			r.from, err = t.At.Open(r.ctx, r.now.Key, r.at)
		}
		if err == nil {
			r.used = append(r.used, r.now)
			return nil
		}
		r.note(err)
	}
	return r.failure
}

// recall asks a slow location for a file.
func recall(ctx context.Context, t *Target, key string) error {
	if t.At.Properties().Tier != storage.Slow {
		return nil
	}
	ready, err := t.At.Recall(ctx, key)
	if err == nil && !ready {
		err = &storage.Error{Location: t.Name, Op: "recall", Key: key, Err: ErrRecalled, Transient: true}
	}
	return err
}

func (r *reader) note(err error) {
	r.failure.Errs = append(r.failure.Errs, err)
	r.failure.Transient = r.failure.Transient || temporary(err)
	r.s.o.Log.Warn("copy cannot be read", "job", r.of.Job, "path", r.of.Path, "location", r.now.Location, "error", err)
}

// Read implements [io.Reader].
func (r *reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if r.failed != nil {
			return 0, r.failed
		}
		if r.at == r.of.Size {
			return 0, r.empty()
		}
		if r.from == nil {
			return 0, r.failure
		}
		n, err := r.from.Read(p[:min(int64(len(p)), r.of.Size-r.at)])
		if n > 0 {
			if r.sum != nil {
				r.sum.Write(p[:n])
			}
			if r.at += int64(n); r.at == r.of.Size {
				if err := r.end(); err != nil {
					r.at -= int64(n)
					r.failed = err
					return 0, err
				}
			}
			return n, nil
		}
		if err == nil {
			continue
		}
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("%s: %w: it ends at byte %d", r.now.Location, storage.ErrDamage, r.at)
			r.suspect()
		}
		r.note(err)
		_ = r.from.Close()
		if r.from = nil; r.ctx.Err() != nil {
			return 0, r.ctx.Err()
		}
		if err := r.advance(); err != nil {
			return 0, err
		}
	}
}

// empty ends a read. An artifact without bytes has no last read that compares its digest.
func (r *reader) empty() error {
	if r.of.Size == 0 {
		if err := r.end(); err != nil {
			return err
		}
	}
	return io.EOF
}

// end compares the digest of a whole artifact.
func (r *reader) end() error {
	if r.sum == nil || hex.EncodeToString(r.sum.Sum(nil)) == r.of.SHA256 {
		return nil
	}
	r.suspect()
	return &storage.Error{Location: r.now.Location, Op: "read", Key: r.now.Key, Err: storage.ErrDamage}
}

// suspect makes the fixity checks of the copies that were read due.
func (r *reader) suspect() {
	for _, c := range r.used {
		r.s.doubts.add(c)
		err := r.s.o.Catalog.Postpone(context.WithoutCancel(r.ctx), c.CopyKey, r.s.o.Now())
		if err != nil {
			r.s.o.Log.Error("fixity check cannot be requested", "key", c.Key, "error", err)
		}
	}
}

// Close implements [io.Closer].
func (r *reader) Close() error {
	if r.from == nil {
		return nil
	}
	return r.from.Close()
}
