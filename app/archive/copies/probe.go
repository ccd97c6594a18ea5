package copies

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	"github.com/stagepost/stagepost/edge/storage"
)

// Marker is the key of the file in a storage location that has its id.
const Marker = "stagepost-location.txt"

// What an error of a location that cannot be used wraps.
var (
	// ErrForeign: the location is not the one that was used before, or belongs to another installation.
	ErrForeign = errors.New("it is another storage location than before, or its file system is not mounted")
	// ErrFull: the location has not enough free space.
	ErrFull = errors.New("not enough free space")
)

// Ready reports why a location cannot be used. It compares the file with the id of the location, which it stores on
// first use: a directory whose file system is not mounted is neither filled nor seen as one that lost all copies.
func (s *Store) Ready(ctx context.Context, name string) error {
	t := s.target(name)
	if t == nil {
		return &storage.Error{Location: name, Op: "open", Err: errors.New("the storage location is not configured")}
	}
	return s.ready(ctx, t, 0)
}

// Reachable reports why a location does not answer. It stores nothing, and does not compare the id of the location.
func (s *Store) Reachable(ctx context.Context, name string) error {
	t := s.target(name)
	if t == nil {
		return &storage.Error{Location: name, Op: "open", Err: errors.New("the storage location is not configured")}
	}
	_, err := t.At.Free(ctx)
	return err
}

// ready is Ready for a number of bytes that are to be stored.
func (s *Store) ready(ctx context.Context, t *Target, need int64) error {
	fail := func(err error) error {
		return &storage.Error{Location: t.Name, Op: "open", Err: err, Transient: true}
	}
	switch free, err := t.At.Free(ctx); {
	case err != nil:
		return err
	case free >= 0 && free < need:
		return fail(fmt.Errorf("%w: %d bytes free, %d needed", ErrFull, free, need))
	}
	l, err := s.o.Catalog.Location(ctx, t.Name, s.o.Now())
	if err != nil {
		return err
	}
	text := []byte("This directory or bucket is a storage location of Stagepost.\nid: " + l.ID + "\n")
	sum := sha256.Sum256(text)
	content := storage.Content{Size: int64(len(text)), SHA256: hex.EncodeToString(sum[:])}
	if l.Marked && t.At.Properties().Tier == storage.Slow {
		_, err := t.At.Stat(ctx, Marker)
		if errors.Is(err, fs.ErrNotExist) {
			err = fail(fmt.Errorf("%w: it has no %s", ErrForeign, Marker))
		}
		return err
	}
	if l.Marked {
		err := storage.Verify(ctx, t.At, Marker, content, nil)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, storage.ErrDamage) {
			err = fail(fmt.Errorf("%w: %s: %w", ErrForeign, Marker, err))
		}
		return err
	}
	err = t.At.Put(ctx, Marker, bytes.NewReader(text), content, nil)
	if errors.Is(err, storage.ErrExists) {
		return &storage.Error{Location: t.Name, Op: "open", Err: fmt.Errorf("%w: %s: %w", ErrForeign, Marker, err)}
	}
	if err != nil {
		return err
	}
	return s.o.Catalog.Mark(ctx, t.Name, s.o.Now())
}
