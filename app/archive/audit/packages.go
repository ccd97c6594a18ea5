package audit

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/archive/catalog"
)

// endsAs reports whether the name of a file in a package ends in one of the names, from a folder on: a package has a
// folder for each activity.
func endsAs(name string, all []string) bool {
	return slices.ContainsFunc(all, func(s string) bool { return strings.HasSuffix(name, "/"+s) })
}

// packages calls use for each file in the packages of the archive (tar.gz and zip), until it returns false. A package
// that cannot be read is noted.
func (h *healing) packages(ctx context.Context, use func(name string, content io.Reader) bool) error {
	for after := ""; ; {
		all, err := h.o.Catalog.Artifacts(ctx, h.of.Job, after, 1000)
		if err != nil || len(all) == 0 {
			return err
		}
		for i := range all {
			a := &all[i]
			after = a.Path
			read := h.tar
			switch {
			case a.Role == catalog.Signature:
				continue
			case strings.HasSuffix(a.Path, ".zip"):
				read = h.zip
			case !strings.HasSuffix(a.Path, ".tar.gz"):
				continue
			}
			switch err := read(ctx, a, use); {
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.Is(err, errEnough):
				return nil
			case err != nil:
				h.errs = append(h.errs, fmt.Errorf("%s of archive %s: %w", a.Path, a.Job, err))
			}
		}
	}
}

// errEnough ends the reading of packages.
var errEnough = errors.New("all files were found")

func (h *healing) tar(ctx context.Context, a *catalog.Artifact, use func(string, io.Reader) bool) error {
	from, err := h.o.Copies.Open(ctx, a.Job, a.Path, 0)
	if err != nil {
		return err
	}
	defer from.Close()
	unpacked, err := gzip.NewReader(paced{ctx, from, h.pace})
	if err != nil {
		return err
	}
	for r := tar.NewReader(unpacked); ; {
		header, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case header.Typeflag == tar.TypeReg && !use(header.Name, r):
			return errEnough
		}
	}
}

func (h *healing) zip(ctx context.Context, a *catalog.Artifact, use func(string, io.Reader) bool) error {
	at := &randomly{ctx: ctx, open: func(offset int64) (io.ReadCloser, error) {
		return h.o.Copies.Open(ctx, a.Job, a.Path, offset)
	}, pace: h.pace}
	defer at.close()
	r, err := zip.NewReader(at, a.Size)
	if err != nil {
		return err
	}
	for _, f := range r.File {
		content, err := f.Open()
		if err != nil {
			return err
		}
		more := use(f.Name, content)
		if err := content.Close(); err != nil {
			return err
		}
		if !more {
			return errEnough
		}
	}
	return nil
}

// paced waits for what is read.
type paced struct {
	ctx  context.Context
	from io.Reader
	pace func(context.Context, int) error
}

// Read implements [io.Reader].
func (p paced) Read(b []byte) (int, error) {
	n, err := p.from.Read(b)
	if wait := p.pace(p.ctx, n); wait != nil {
		err = wait
	}
	return n, err
}

// randomly is a file of an archive that is read at any offset: reads that follow each other share one reader. It is for
// one goroutine.
type randomly struct {
	ctx  context.Context
	open func(offset int64) (io.ReadCloser, error)
	pace func(context.Context, int) error
	from io.ReadCloser // nil: none
	next int64         // offset of from
}

// ReadAt implements [io.ReaderAt].
func (r *randomly) ReadAt(b []byte, offset int64) (n int, err error) {
	if r.from == nil || r.next != offset {
		r.close()
		if r.from, err = r.open(offset); err != nil {
			r.from = nil
			return 0, err
		}
		r.next = offset
	}
	n, err = io.ReadFull(paced{r.ctx, r.from, r.pace}, b)
	r.next += int64(n)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

func (r *randomly) close() {
	if r.from != nil {
		_ = r.from.Close() // it was only read
		r.from = nil
	}
}
