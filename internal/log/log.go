// Package log is an append-only log of numbered records in a directory. A record is on the disk when [Log.Append]
// returns. [Read] returns the records after a number; [Log.Release] removes segments that are not needed any more.
//
// One record at a time is written and synced, so a power failure can only damage the last one, for which no caller
// got an answer. Read distinguishes that from damage before a whole record, which is an error.
package log

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/stagepost/stagepost/internal/durable"
)

// Sizes of segments in bytes, with headers: of the first one and of the largest.
const (
	firstSize   = 1 << 20
	largestSize = 16 << 20
)

// MaxContent is the longest content of a record, in bytes.
const MaxContent = 1 << 30

// Options of [Create]. The zero value works.
type Options struct {
	// Installation is written into each segment, at most 64 bytes; Read with another one is an error.
	Installation string
	// FirstSize is the size of the first segment in bytes; each next one has twice the size, up to 16 MiB. Defaults to
	// 1 MiB.
	FirstSize int64
	// Before is called before each operation on the disk, which fails with its error. For tests; defaults to none. It
	// must be safe for concurrent use.
	Before func(Op) error
}

// Op is an operation on the disk.
type Op struct {
	Kind OpKind
	File string // within the directory
	At   int64  // of a write
	Size int64  // of a new file: zeros follow Data
	Data []byte // of a write or at the beginning of a new file; valid until Before returns
}

// OpKind is the kind of an operation.
type OpKind byte

// The kinds of operations.
const (
	Put    OpKind = 'p' // a synced file gets its name
	Named  OpKind = 'n' // the directory is synced after Put
	Write  OpKind = 'w'
	Sync   OpKind = 's' // of a file after Write
	Remove OpKind = 'd'
)

// Log is a log that is open for appending. One goroutine appends; Release may be called concurrently.
type Log struct {
	dir     string
	options Options

	file   *os.File // the newest segment
	header header
	size   int64  // of it
	at     int64  // where the next record begins
	next   uint64 // its number
	text   []byte
	failed error // of a sync: a second one would not report what the first one lost

	spare  chan prepared // one is coming if it is not nil
	mu     sync.Mutex    // guards closed
	closed []ended       // earlier segments, ascending
}

// ended is a segment that gets no more records.
type ended struct {
	file string
	last uint64
}

// prepared is a file of zeros for the next segment, or the error.
type prepared struct {
	file *os.File
	size int64
	err  error
}

// Create begins a log in dir, which it creates if necessary, with a new segment whose first record has the number
// next, not 0. It removes all other segments: the caller needs none of their records any more.
func Create(dir string, next uint64, o Options) (*Log, error) {
	if len(o.Installation) > longestID {
		return nil, fmt.Errorf("installation %q is longer than %d bytes", o.Installation, longestID)
	}
	if o.FirstSize <= 0 {
		o.FirstSize = firstSize
	}
	if o.Before == nil {
		o.Before = func(Op) error { return nil }
	}
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	earlier, err := list(dir)
	if err != nil {
		return nil, err
	}
	l := &Log{dir: dir, options: o, next: next}
	if err := l.start(l.prepare(max(o.FirstSize, 2*headerSize))); err != nil {
		return nil, err
	}
	for _, first := range earlier {
		if first != next { // that one was replaced
			l.closed = append(l.closed, ended{name(first), next - 1})
		}
	}
	if err := l.Release(next - 1); err != nil {
		return nil, errors.Join(err, l.file.Close())
	}
	return l, nil
}

// Delete removes a log with its directory; no log is no error.
func Delete(dir string) error {
	if _, err := list(dir); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	return errors.Join(os.RemoveAll(dir), durable.Sync(filepath.Dir(dir)))
}

// prepare makes a file of zeros and syncs it.
func (l *Log) prepare(size int64) prepared {
	f, err := os.OpenFile(filepath.Join(l.dir, preparation), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return prepared{err: err}
	}
	zeros := make([]byte, 1<<18)
	for at := int64(0); at < size && err == nil; at += int64(len(zeros)) {
		_, err = f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return prepared{err: errors.Join(err, f.Close(), os.Remove(f.Name()))}
	}
	return prepared{file: f, size: size}
}

// start makes a prepared file the newest segment.
func (l *Log) start(p prepared) error {
	if p.err != nil {
		return p.err
	}
	h := header{first: l.next, salt: newSalt(), installation: l.options.Installation}
	text, file := h.append(nil), name(l.next)
	_, err := p.file.WriteAt(text, 0)
	if err == nil {
		err = durable.SyncData(p.file)
	}
	if err == nil {
		err = l.options.Before(Op{Kind: Put, File: file, Data: text, Size: p.size})
	}
	if err == nil {
		err = os.Rename(filepath.Join(l.dir, preparation), filepath.Join(l.dir, file))
	}
	if err == nil {
		if err = l.options.Before(Op{Kind: Named, File: file}); err == nil {
			err = durable.Sync(l.dir)
		}
		l.failed = err
	}
	if err != nil {
		return errors.Join(err, p.file.Close())
	}
	if l.file != nil {
		l.mu.Lock()
		l.closed = append(l.closed, ended{name(l.header.first), l.next - 1})
		l.mu.Unlock()
		if err := l.file.Close(); err != nil {
			return errors.Join(err, p.file.Close())
		}
	}
	l.file, l.header, l.size, l.at = p.file, h, p.size, headerSize
	return nil
}

func newSalt() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it has no errors
	return binary.LittleEndian.Uint64(b[:])
}

// Append appends a record and returns its number when it is on the disk. After an error of [Log.Lost] nothing more
// can be appended; after another one, such as no space for a segment, the record is not in the log and the caller may
// try again.
func (l *Log) Append(content []byte) (number uint64, err error) {
	if l.failed != nil {
		return 0, l.failed
	}
	if len(content) == 0 || len(content) > MaxContent {
		return 0, fmt.Errorf("a record of %d bytes", len(content))
	}
	if l.at+int64(span(len(content))) > l.size {
		if err := l.rotate(int64(headerSize + span(len(content)))); err != nil {
			return 0, err
		}
	}
	l.text = l.header.appendRecord(l.text[:0], l.next, content)
	file := name(l.header.first)
	if err := l.options.Before(Op{Kind: Write, File: file, At: l.at, Data: l.text}); err != nil {
		return 0, err
	}
	if _, err := l.file.WriteAt(l.text, l.at); err != nil {
		return 0, err // the next record is written at the same position
	}
	if err = l.options.Before(Op{Kind: Sync, File: file}); err == nil {
		err = durable.SyncData(l.file)
	}
	if err != nil {
		l.failed = err
		return 0, err
	}
	number = l.next
	l.next, l.at = l.next+1, l.at+int64(len(l.text))
	if l.spare == nil && l.at > l.size/2 {
		l.spare = make(chan prepared, 1)
		go func(size int64) { l.spare <- l.prepare(size) }(max(l.options.FirstSize, min(2*l.size, largestSize)))
	}
	return number, nil
}

// Lost returns the error of the sync after which it is unknown what the disk has, nil if all syncs succeeded.
func (l *Log) Lost() error { return l.failed }

// rotate begins a segment of at least the size.
func (l *Log) rotate(least int64) error {
	var p prepared
	if l.spare != nil {
		p = <-l.spare
		l.spare = nil
	}
	if p.file == nil || p.size < least {
		if p.file != nil {
			if err := p.file.Close(); err != nil {
				return err
			}
		}
		p = l.prepare(max(least, l.options.FirstSize, min(2*l.size, largestSize)))
	}
	return l.start(p)
}

// Next returns the number of the next record.
func (l *Log) Next() uint64 { return l.next }

// Release removes the segments of which all records are up to through, but never the newest segment. It may be called
// concurrently with Append.
func (l *Log) Release(through uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.closed) > 0 && l.closed[0].last <= through {
		file := l.closed[0].file
		if err := l.options.Before(Op{Kind: Remove, File: file}); err != nil {
			return err
		}
		if err := os.Remove(filepath.Join(l.dir, file)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		l.closed = l.closed[1:]
	}
	return nil
}

// Close closes the log; its records stay.
func (l *Log) Close() error {
	var errs []error
	if l.spare != nil {
		if p := <-l.spare; p.file != nil {
			errs = append(errs, p.file.Close(), os.Remove(p.file.Name()))
		}
		l.spare = nil
	}
	return errors.Join(append(errs, l.file.Close())...)
}
