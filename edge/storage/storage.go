// Package storage keeps files in storage locations: a directory, a bucket of an S3 service, a directory of an SFTP
// server.
//
// A location never overwrites. Nothing is under a key until the file is complete and durable; then its content never
// changes. A Put of the same content under the same key succeeds, and one of other content is refused, so that a caller
// may repeat a Put whose result it does not know. [Verify] reads a file back and compares it with its digest.
package storage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Content is what a file must contain.
type Content struct {
	Size   int64
	SHA256 string // 64 hexadecimal digits, lower case

	// ReadBack: the caller reads the file back after the Put, and deletes it if it is damaged. The Put may then leave
	// it to the caller to notice that the source has other bytes than announced, but not another size.
	ReadBack bool
}

// Stat is what a location states of a file.
type Stat struct {
	Size   int64
	SHA256 string // empty: the location does not keep it
}

// Tier is how quickly a location gives its files.
type Tier string

// The tiers. A file of a slow location is recalled before it is read.
const (
	Local Tier = "local"
	Fast  Tier = "fast"
	Slow  Tier = "slow"
)

// Properties are facts of a location that never change.
type Properties struct {
	Name    string // for messages
	Tier    Tier
	MaxSize int64 // of a file; zero: no limit
}

// Progress lets a Put continue where an earlier one of the same content ended.
type Progress struct {
	State json.RawMessage             // what the earlier Put saved last; nil at first
	Save  func(json.RawMessage) error // called before the Put depends on the state
}

// Location keeps files under keys (see [CheckKey]). Methods may be called concurrently. Their errors are an [*Error];
// that of a missing file wraps [fs.ErrNotExist].
type Location interface {
	// Put stores a file. It returns when the file is durable. p may be nil.
	Put(ctx context.Context, key string, src io.ReaderAt, c Content, p *Progress) error
	// Open reads a file from an offset.
	Open(ctx context.Context, key string, offset int64) (io.ReadCloser, error)
	Stat(ctx context.Context, key string) (Stat, error)
	// Delete removes a file. A missing file is no error.
	Delete(ctx context.Context, key string) error
	// Abandon removes what an unfinished Put left. A finished one is not affected.
	Abandon(ctx context.Context, key string, p *Progress) error
	// Recall asks a slow location for a file and reports whether it can be read now.
	Recall(ctx context.Context, key string) (ready bool, err error)
	// Free gives the free space in bytes, or -1 where the location does not state it. It fails if the location is not
	// usable.
	Free(ctx context.Context) (int64, error)
	Properties() Properties
	Close() error
}

// What an [Error] wraps.
var (
	ErrExists = errors.New("the key has other content")
	ErrSource = errors.New("the source has other content than announced")
	ErrKey    = errors.New("invalid key")
	ErrDamage = errors.New("the stored file is damaged")
)

// Error is a failed operation of a location.
type Error struct {
	Location  string // name or address, without secrets
	Op        string
	Key       string // may be empty
	Err       error
	Transient bool // a later attempt can succeed
}

// Error names operation, key and location.
func (e *Error) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("%s: %s: %v", e.Location, e.Op, e.Err)
	}
	return fmt.Sprintf("%s: %s %s: %v", e.Location, e.Op, e.Key, e.Err)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Temporary reports whether a later attempt can succeed.
func (e *Error) Temporary() bool { return e.Transient }

// CheckKey accepts relative paths with slashes whose elements are at most 200 bytes of printable UTF-8, do not begin
// with a dot, and do not end in a dot or a space; the whole has at most 900 bytes. Every location can keep such a key.
func CheckKey(key string) error {
	bad := func(why string) error { return fmt.Errorf("%w %q: %s", ErrKey, key, why) }
	switch {
	case key == "":
		return bad("it is empty")
	case len(key) > 900:
		return bad("it has more than 900 bytes")
	case !utf8.ValidString(key):
		return bad("it is not UTF-8")
	case strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) || r == '\\' }):
		return bad("it contains a control character or a backslash")
	}
	for part := range strings.SplitSeq(key, "/") {
		switch {
		case part == "":
			return bad("an element is empty")
		case len(part) > 200:
			return bad("an element has more than 200 bytes")
		case part[0] == '.':
			return bad("an element begins with a dot")
		case strings.HasSuffix(part, ".") || strings.HasSuffix(part, " "):
			return bad("an element ends in a dot or a space")
		}
	}
	return nil
}

// Verify reads a file back. A difference is an [*Error] that wraps [ErrDamage], and a [*Difference] if the file could
// be read to its end. pace, if not nil, is called with the number of bytes before they are read on.
func Verify(ctx context.Context, p Location, key string, c Content, pace func(context.Context, int) error) error {
	r, err := p.Open(ctx, key, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	sum := sha256.New()
	n, err := copyPaced(ctx, sum, r, pace)
	damage := false
	if err == nil {
		err = compare(c, n, sum, ErrDamage)
		damage = err != nil
	}
	var e *Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &Error{Location: p.Properties().Name, Op: "verify", Key: key, Err: err, Transient: !damage}
}

// Difference is what a file that was read to its end has instead of what it must contain.
type Difference struct {
	Kind   error // ErrDamage or ErrSource
	Want   Content
	Size   int64
	SHA256 string
}

// Error names the sizes if they differ, else the digests.
func (d *Difference) Error() string {
	if d.Size != d.Want.Size {
		return fmt.Sprintf("%v: it has %d bytes, not %d", d.Kind, d.Size, d.Want.Size)
	}
	return fmt.Sprintf("%v: its SHA-256 is %s, not %s", d.Kind, d.SHA256, d.Want.SHA256)
}

// Unwrap gives the kind.
func (d *Difference) Unwrap() error { return d.Kind }

// compare checks what was read against what was announced.
func compare(c Content, n int64, sum hash.Hash, kind error) error {
	if got := hex.EncodeToString(sum.Sum(nil)); n != c.Size || got != c.SHA256 {
		return &Difference{Kind: kind, Want: c, Size: n, SHA256: got}
	}
	return nil
}

// blockSize is the number of bytes that are read and written at once. With larger writes the page cache of Linux needs
// larger pieces of free memory, which took three times as long on a machine that was busy.
const blockSize = 128 << 10

// copyPaced copies until the end, and stops when the context ends.
func copyPaced(
	ctx context.Context, w io.Writer, r io.Reader, pace func(context.Context, int) error,
) (total int64, err error) {
	buf := make([]byte, blockSize)
	for {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		n, err := r.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return total, err
			}
			total += int64(n)
			if pace != nil {
				if err := pace(ctx, n); err != nil {
					return total, err
				}
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return total, nil
		case err != nil:
			return total, err
		}
	}
}

// exact reads a number of bytes. A source that has fewer has changed.
type exact struct {
	io.Reader
	left int64
}

func (e *exact) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if e.left -= int64(n); errors.Is(err, io.EOF) && e.left > 0 {
		return n, fmt.Errorf("%w: it is too short", ErrSource)
	}
	return n, err
}

// existing decides about a key that exists: the same content is no error.
func existing(ctx context.Context, p Location, key string, c Content) error {
	s, err := p.Stat(ctx, key)
	if err != nil {
		return err
	}
	if s.Size != c.Size {
		return fmt.Errorf("%w: %d bytes, not %d", ErrExists, s.Size, c.Size)
	}
	err = Verify(ctx, p, key, c, nil)
	if errors.Is(err, ErrDamage) {
		return fmt.Errorf("%w: %w", ErrExists, err)
	}
	return err
}

// refused reports whether the package itself refused an operation.
func refused(err error) bool {
	return errors.Is(err, ErrExists) || errors.Is(err, ErrSource) || errors.Is(err, ErrKey)
}

// missing reports whether an error states that there is no file.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// keyed has a lock for each key that is in use.
type keyed struct {
	mu    sync.Mutex
	locks map[string]*counted
}

type counted struct {
	sync.Mutex
	users int
}

// lock waits for the lock of a key and gives the function that releases it.
func (k *keyed) lock(key string) (unlock func()) {
	k.mu.Lock()
	if k.locks == nil {
		k.locks = map[string]*counted{}
	}
	l := k.locks[key]
	if l == nil {
		l = &counted{}
		k.locks[key] = l
	}
	l.users++
	k.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(k.locks, key)
		}
	}
}
