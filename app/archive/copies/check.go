package copies

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
	"time"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/edge/storage"
)

// Fixity reads a copy and compares it with its digest. An error implies nothing about the copy: its location cannot be
// read now, or recalls the file first ([ErrRecalled]). Of a copy with a fault the location is asked again who it is, so
// that one that was unmounted meanwhile is not taken for one that lost the file. pace is called with the number of
// bytes before they are read on; nil: as fast as possible. The result has no times.
func (s *Store) Fixity(
	ctx context.Context, c catalog.Copy, pace func(context.Context, int) error,
) (r catalog.Checked, err error) {
	t := s.target(c.Location)
	if t == nil {
		return r, s.Ready(ctx, c.Location)
	}
	if err := recall(ctx, t, c.Key); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	content := storage.Content{Size: c.Of.Size, SHA256: c.Of.SHA256}
	err = storage.Verify(ctx, t.At, c.Key, content, pace)
	if err == nil {
		return catalog.Checked{CopyKey: c.CopyKey, Fixity: catalog.Intact}, nil
	}
	fault := catalog.Checked{CopyKey: c.CopyKey, Fixity: catalog.Corrupt, Detail: err.Error()}
	var d *storage.Difference
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fault.Fixity = catalog.Absent
	case errors.As(err, &d):
		fault.Found = d.SHA256
	case !errors.Is(err, storage.ErrDamage) && !errors.Is(err, syscall.EIO): // EIO: the medium is damaged
		return r, err
	}
	if again := s.Ready(ctx, c.Location); again != nil {
		return r, again
	}
	return fault, nil
}

// Next gives the time of the fixity check after one that ended at a time.
func (s *Store) Next(location string, at time.Time) time.Time { return at.Add(s.Interval(location)) }
