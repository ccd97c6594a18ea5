package pack

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sort"
	"sync"
)

// ErrChanged is the error for content that changed since the archive was planned: another size, another CRC-32, or no
// file.
var ErrChanged = errors.New("the content has changed since it was packed")

// ContentError is the error for a file of an archive that cannot be read.
type ContentError struct {
	Name string // in the archive
	Err  error
}

func (e *ContentError) Error() string { return e.Name + ": " + e.Err.Error() }

// Unwrap returns the cause, [ErrChanged] among others.
func (e *ContentError) Unwrap() error { return e.Err }

// Reader reads an archive. It is an io.ReadSeekCloser and an io.ReaderAt, safe for concurrent use. Reads are
// serialized.
type Reader struct {
	Summary
	open                     Opener
	index, literals, sources *os.File

	mu     sync.Mutex // guards the rest
	pos    int64
	number int64 // of the last hole that begins at or before the last read position; -1: before the first
	here   hole  // that hole; the zero hole before the first
	next   hole  // the one after it; offset Size if there is none
	opened int64 // number of the hole whose content is open; -1: none
	name   string
	file   File
	sum    checked
}

// checked is the state of a file that is read from its beginning.
type checked struct {
	number int64
	upto   int64
	crc    uint32
}

// Close closes the files of the plan and the open content.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.shut()
	for _, f := range []*os.File{r.index, r.literals, r.sources} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

// Read continues at the position of the last Read or Seek.
func (r *Reader) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, err := r.readAt(b, r.pos)
	r.pos += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// ReadAt reads len(b) bytes at offset off of the archive, and fewer only at its end or with an error.
func (r *Reader) ReadAt(b []byte, off int64) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.readAt(b, off)
}

// Seek sets the position of the next Read. It opens the content at that position, so that missing or changed content
// is detected before a read.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		offset += r.pos
	case io.SeekEnd:
		offset += r.Size
	}
	if offset < 0 || whence < io.SeekStart || whence > io.SeekEnd {
		return 0, errors.New("pack: seek to before the beginning")
	}
	if offset < r.Size {
		if err := r.ahead(offset); err != nil {
			return 0, err
		}
	}
	r.pos = offset
	return offset, nil
}

// ahead opens the first content at or after an offset.
func (r *Reader) ahead(offset int64) error {
	if err := r.find(offset); err != nil {
		return err
	}
	if offset >= r.here.offset+r.here.size {
		if r.next.offset == r.Size {
			return nil
		}
		if err := r.find(r.next.offset); err != nil {
			return err
		}
	}
	return r.use()
}

func (r *Reader) readAt(b []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("pack: read before the beginning")
	}
	done := 0
	for done < len(b) {
		if off >= r.Size {
			return done, io.EOF
		}
		n, err := r.piece(b[done:], off)
		done, off = done+n, off+int64(n)
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// piece reads from one hole, or from the literal bytes between two.
func (r *Reader) piece(b []byte, off int64) (int, error) {
	if err := r.find(off); err != nil {
		return 0, err
	}
	if at := off - r.here.offset; r.number >= 0 && at < r.here.size {
		return r.content(b[:min(int64(len(b)), r.here.size-at)], at)
	}
	b = b[:min(int64(len(b)), r.next.offset-off)]
	n, err := r.literals.ReadAt(b, off-r.here.before-r.here.size)
	if n < len(b) {
		return n, fmt.Errorf("%w: %w", errIndex, err)
	}
	return n, nil
}

// content reads content of the current hole. It returns the last bytes of a file that was read from its beginning
// only if the whole file has the planned CRC-32.
func (r *Reader) content(b []byte, at int64) (int, error) {
	if err := r.use(); err != nil {
		return 0, err
	}
	n, err := r.file.ReadAt(b, at)
	if n < len(b) {
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: it became shorter", ErrChanged)
		}
		return 0, &ContentError{r.name, err}
	}
	if at == 0 {
		r.sum = checked{number: r.number}
	}
	if r.sum.number != r.number || r.sum.upto != at {
		return n, nil
	}
	r.sum.crc = crc32.Update(r.sum.crc, crc32.IEEETable, b)
	r.sum.upto += int64(n)
	if r.sum.upto == r.here.size && r.sum.crc != r.here.crc {
		return 0, &ContentError{r.name,
			fmt.Errorf("%w: its CRC-32 is %08x, it was %08x", ErrChanged, r.sum.crc, r.here.crc)}
	}
	return n, nil
}

// use opens the content of the current hole, if it is not open.
func (r *Reader) use() error {
	if r.opened == r.number {
		return nil
	}
	if err := r.shut(); err != nil {
		return err
	}
	text := make([]byte, r.here.line)
	if _, err := r.sources.ReadAt(text, r.here.source); err != nil {
		return fmt.Errorf("%w: %w", errIndex, err)
	}
	var s source
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("%w: %w", errIndex, err)
	}
	file, err := r.open(s.Source)
	if err != nil {
		return &ContentError{s.Name, fmt.Errorf("%w: %w", ErrChanged, err)}
	}
	info, err := file.Stat()
	if err == nil && info.Size() != r.here.size {
		err = fmt.Errorf("%w: it has %d bytes, it had %d", ErrChanged, info.Size(), r.here.size)
	}
	if err != nil {
		return errors.Join(&ContentError{s.Name, err}, file.Close())
	}
	r.file, r.name, r.opened = file, s.Name, r.number
	return nil
}

// shut closes the open content.
func (r *Reader) shut() error {
	r.opened = -1
	if r.file == nil {
		return nil
	}
	f := r.file
	r.file = nil
	return f.Close()
}

// find finds the last hole that begins at or before an offset. A sequential read costs one index access for each
// file, a seek costs a binary search.
func (r *Reader) find(off int64) error {
	if r.next.offset > 0 && r.number+1 < r.Holes && off >= r.next.offset { // perhaps the next one
		if err := r.set(r.number + 1); err != nil {
			return err
		}
	}
	if r.next.offset > 0 && off >= r.here.offset && off < r.next.offset {
		return nil
	}
	var failed error
	k := sort.Search(int(r.Holes), func(i int) bool {
		h, err := readHole(r.index, int64(i), r.Size)
		failed = errors.Join(failed, err)
		return err != nil || h.offset > off
	})
	if failed != nil {
		return failed
	}
	return r.set(int64(k) - 1)
}

// set makes the k-th hole the current one.
func (r *Reader) set(k int64) error {
	here, next := hole{}, hole{offset: r.Size}
	var err error
	switch {
	case k < 0:
	case k == r.number+1 && r.next.size > 0:
		here = r.next
	default:
		if here, err = readHole(r.index, k, r.Size); err != nil {
			return err
		}
	}
	if k+1 < r.Holes {
		if next, err = readHole(r.index, k+1, r.Size); err != nil {
			return err
		}
		if next.offset < here.offset+here.size {
			return errIndex
		}
	}
	r.number, r.here, r.next = k, here, next
	return nil
}
