package unpack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/stagepost/stagepost/edge/safename"
)

// free is the number of bytes that an archive may unpack to before its ratio counts.
const free = 1 << 20

// writer alone creates files: it keeps the names so far and counts the bytes.
type writer struct {
	ctx    context.Context
	root   *os.Root
	limits Limits
	packed int64 // bytes of the archive
	names  safename.Set
	report Report
	links  []link // symbolic, to be copied at the end
	buffer [128 << 10]byte
}

// dir creates a directory.
func (w *writer) dir(name string) error {
	clean, err := w.names.AddDir(name)
	if err := w.admit(name, clean, err); err != nil {
		return err
	}
	return w.root.MkdirAll(clean, 0o750)
}

// file creates a file with the content of r. size is the stated size, or -1; packed is the number of bytes in the
// archive from which r is decoded.
func (w *writer) file(name string, r io.Reader, size, packed int64) error {
	clean, err := w.names.AddFile(name)
	if err := w.admit(name, clean, err); err != nil {
		return err
	}
	if err := w.root.MkdirAll(path.Dir(clean), 0o750); err != nil {
		return err
	}
	f, err := w.root.OpenFile(clean, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return err
	}
	w.report.Files++
	return errors.Join(w.copy(f, name, r, size, packed), f.Close())
}

// admit converts the result of the name check to an error and checks the limits for number and depth.
func (w *writer) admit(name, clean string, err error) error {
	switch {
	case err != nil:
		return refuse(Name, name, err)
	case w.names.Len() > w.limits.Files:
		return refuse(TooMany, name, fmt.Errorf("more than %d", w.limits.Files))
	case strings.Count(clean, "/") >= w.limits.Depth:
		return refuse(TooDeep, name, fmt.Errorf("more than %d directories", w.limits.Depth))
	}
	return nil
}

// copy counts the written bytes. It stops at most one piece after a limit.
func (w *writer) copy(f io.Writer, name string, r io.Reader, size, packed int64) error {
	var written int64
	for {
		if w.ctx.Err() != nil {
			return refuse(Cancelled, name, context.Cause(w.ctx))
		}
		n, err := r.Read(w.buffer[:])
		written += int64(n)
		w.report.Bytes += int64(n)
		switch {
		case size >= 0 && written > size:
			return refuse(Size, name, fmt.Errorf("more than the %d bytes of its header", size))
		case w.report.Bytes > w.limits.Bytes:
			return refuse(TooLarge, name, fmt.Errorf("more than %d bytes", w.limits.Bytes))
		case w.steep(written, packed), w.steep(w.report.Bytes, w.packed):
			return refuse(Ratio, name, fmt.Errorf("more than %d to 1", w.limits.Ratio))
		}
		if _, err := f.Write(w.buffer[:n]); err != nil {
			return err
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return damaged(name, err)
		}
	}
	if size >= 0 && written < size {
		return refuse(Corrupt, name, io.ErrUnexpectedEOF)
	}
	return nil
}

func (w *writer) steep(unpacked, packed int64) bool {
	return unpacked > free && unpacked/w.limits.Ratio > packed
}

// damaged is for errors of a decoder; it passes a rule of a reader below it through.
func damaged(entry string, err error) error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return refuse(Corrupt, entry, err)
}
