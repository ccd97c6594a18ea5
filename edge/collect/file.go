package collect

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/stagepost/stagepost/internal/durable"
)

// The refusals of Receive; all other errors are of the source, of the disk or of the context.
var (
	ErrLength   = errors.New("wrong length")
	ErrDigest   = errors.New("wrong SHA-256")
	ErrTooLarge = errors.New("too large")
)

// temporary is the prefix of unfinished files.
const temporary = ".collect-"

// ZipFile writes a ZIP of dir to the file name in the directory into, which must not be writable for the script. The
// file appears complete and synced, or not at all; it replaces one of the same name. It never contains itself.
func ZipFile(ctx context.Context, dir *os.Root, into *os.Root, name string, o Options) (Result, error) {
	var m Manifest
	r, err := finish(into, name, func(f *os.File, w io.Writer) error {
		itself, err := f.Stat()
		if err == nil {
			m, err = zipInto(ctx, dir, w, o, itself)
		}
		return err
	}, nil)
	r.Manifest = m
	return r, err
}

// Expect is the sender's statement about a file.
type Expect struct {
	Bytes  int64   // -1: not stated
	SHA256 *Digest // nil: not stated
}

// Receive stores the content of src as the file name in into, like ZipFile. With another length or digest than
// expected, or more than max bytes (zero: no limit), it stores nothing, and the error is ErrLength, ErrDigest or
// ErrTooLarge. It checks the context only between two reads: src must end with it too. Verify checks that the file is
// a valid ZIP.
func Receive(ctx context.Context, src io.Reader, into *os.Root, name string, want Expect, max int64) (Result, error) {
	if max > 0 && want.Bytes > max {
		return Result{}, fmt.Errorf("collect: receive %s: %w: %d bytes were announced, %d are allowed", short(name),
			ErrTooLarge, want.Bytes, max)
	}
	announced := func(r Result) error {
		if want.Bytes >= 0 && r.Bytes != want.Bytes {
			return fmt.Errorf("%w: %d bytes of %d", ErrLength, r.Bytes, want.Bytes)
		}
		if want.SHA256 != nil && r.SHA256 != *want.SHA256 {
			return fmt.Errorf("%w: %s, announced was %s", ErrDigest, r.SHA256, want.SHA256)
		}
		return nil
	}
	return finish(into, name, func(_ *os.File, w io.Writer) error { return receive(ctx, w, src, want.Bytes, max) },
		announced)
}

// receive copies, and ends as soon as there are more bytes than allowed.
func receive(ctx context.Context, w io.Writer, src io.Reader, announced, max int64) error {
	buffer, got := make([]byte, 128<<10), int64(0)
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := src.Read(buffer)
		got += int64(n)
		if max > 0 && got > max {
			return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, max)
		}
		if announced >= 0 && got > announced {
			return fmt.Errorf("%w: more than the %d bytes announced", ErrLength, announced)
		}
		if _, err := w.Write(buffer[:n]); err != nil {
			return err
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// finish writes a temporary file in the same directory, has it checked (accept may be nil), syncs it, renames it, and
// syncs the new name.
func finish(into *os.Root, name string, fill func(*os.File, io.Writer) error, accept func(Result) error) (r Result,
	err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("collect: store %s: %w", short(name), err)
		}
	}()
	if !fs.ValidPath(name) || name == "." || strings.HasPrefix(path.Base(name), temporary) {
		return r, errors.New("not a file name")
	}
	temp := path.Join(path.Dir(name), temporary+rand.Text())
	f, err := into.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return r, err
	}
	defer func() {
		if f != nil {
			f.Close()
		}
		if err != nil {
			into.Remove(temp)
		}
	}()
	sum := sha256.New()
	counted := &counter{w: io.MultiWriter(f, sum)}
	w := bufio.NewWriterSize(counted, 256<<10)
	if err := fill(f, w); err != nil {
		return r, err
	}
	if err := w.Flush(); err != nil {
		return r, err
	}
	r = Result{Bytes: counted.n, SHA256: Digest(sum.Sum(nil))}
	if accept != nil {
		if err := accept(r); err != nil {
			return Result{}, err
		}
	}
	if err := f.Sync(); err != nil {
		return Result{}, err
	}
	err, f = f.Close(), nil
	if err == nil {
		err = into.Rename(temp, name)
	}
	if err == nil {
		err = durable.SyncIn(into, path.Dir(name))
	}
	return r, err
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// Sweep removes the temporary files that a killed process left in a directory of ZipFile and Receive, not in its
// subdirectories. It is called at the start, before others store in it.
func Sweep(into *os.Root) error {
	d, err := into.Open(".")
	if err != nil {
		return fmt.Errorf("collect: sweep: %w", err)
	}
	defer d.Close()
	var old []string
	for {
		names, err := d.Readdirnames(1000)
		for _, name := range names {
			if strings.HasPrefix(name, temporary) {
				old = append(old, name)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("collect: sweep: %w", err)
		}
	}
	var errs []error
	for _, name := range old {
		errs = append(errs, into.Remove(name))
	}
	return errors.Join(errs...)
}
