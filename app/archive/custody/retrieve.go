package custody

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/job"
)

// Artifact is a file of an archive that is read. It is not safe for concurrent use.
type Artifact struct {
	Path   string
	Size   int64
	SHA256 string // hexadecimal
	Made   time.Time

	open func(offset int64) (io.ReadCloser, error)
	from io.ReadCloser // nil: not open
	next int64         // offset of from
	at   int64         // of the next Read
}

// Retrieve opens a file of an archive at an offset, from the best copy. Errors: NotFound; Gone of a deleted archive;
// Unavailable while no copy can be read, and with [copies.ErrRecalled] while a slow location recalls it.
func (c *Custody) Retrieve(ctx context.Context, id job.ID, path string, offset int64) (*Artifact, error) {
	archive, err := c.o.Catalog.Archive(ctx, string(id))
	if err != nil {
		return nil, absent("retrieve", id, err)
	}
	switch archive.Outcome {
	case catalog.Complete:
	case catalog.Deleted:
		return nil, job.Errorf(job.Gone, "retrieve", id, "the archive is deleted")
	default:
		return nil, job.Errorf(job.Refused, "retrieve", id, "the archive is not complete: its job is not, or failed")
	}
	x, err := c.o.Catalog.Artifact(ctx, string(id), path)
	if err != nil {
		return nil, refusal("retrieve", id, err)
	}
	f := &Artifact{Path: x.Path, Size: x.Size, SHA256: x.SHA256, Made: x.Created, next: -1}
	f.open = func(offset int64) (io.ReadCloser, error) {
		from, err := c.o.Copies.Open(ctx, string(id), path, offset)
		var failed *copies.ReadError
		if errors.As(err, &failed) {
			return nil, job.Errorf(job.Unavailable, "retrieve", id, "%w", err)
		}
		return from, err
	}
	f.at = min(max(offset, 0), f.Size)
	return f, f.ready()
}

// ready opens the file where it is read next.
func (f *Artifact) ready() (err error) {
	if f.from != nil && f.next == f.at {
		return nil
	}
	if err := f.Close(); err != nil {
		return err
	}
	if f.from, err = f.open(f.at); err != nil {
		f.from = nil
		return err
	}
	f.next = f.at
	return nil
}

// Read implements [io.Reader].
func (f *Artifact) Read(p []byte) (int, error) {
	if f.at >= f.Size && f.from == nil {
		return 0, io.EOF
	}
	if err := f.ready(); err != nil {
		return 0, err
	}
	n, err := f.from.Read(p)
	f.at += int64(n)
	f.next = f.at
	return n, err
}

// Seek implements [io.Seeker]. The next Read opens the file there.
func (f *Artifact) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.at
	case io.SeekEnd:
		offset += f.Size
	}
	if offset < 0 {
		return 0, fmt.Errorf("seek to byte %d", offset)
	}
	f.at = min(offset, f.Size)
	return f.at, nil
}

// Close implements [io.Closer].
func (f *Artifact) Close() error {
	if f.from == nil {
		return nil
	}
	err := f.from.Close()
	f.from = nil
	return err
}
