package access

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"strings"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/engine"
)

// copyAt is a copy of the version in a storage location. Its content is listed when it is first needed.
type copyAt struct {
	ingest.Place
	looked bool
	paths  map[string]string
	err    error
}

// fault is why a file could not be read from a storage location. As the error of a step it has its cause, and whether a
// later attempt may succeed.
type fault struct {
	cause string
	place string
	again bool
	err   error
}

func (f *fault) Error() string   { return f.err.Error() }
func (f *fault) Unwrap() error   { return f.err }
func (f *fault) Cause() string   { return f.cause }
func (f *fault) Temporary() bool { return f.again }

// whole finds a storage location that has the file as the inventory describes it, and returns the CRC-32 of its bytes.
// All are tried; what was wrong in those before is noted.
func (t *task) whole(ctx context.Context, f *ingest.StoredFile) (source, uint32, error) {
	var faults []*fault
	for _, p := range t.places {
		from, crc, err := t.check(ctx, p, f)
		if ctx.Err() != nil {
			return source{}, 0, ctx.Err()
		}
		if err == nil {
			if len(faults) > 0 {
				t.damaged(f, faults)
			}
			return from, crc, nil
		}
		faults = append(faults, faultOf(p, err))
	}
	return source{}, 0, t.lost(f, faults)
}

var errDigest = errors.New("other bytes than were stored")

func faultOf(p *copyAt, err error) *fault {
	f := &fault{place: p.Dir, err: err, cause: ingest.CauseStorage, again: true}
	switch {
	case errors.Is(err, errDigest):
		f.cause, f.again = ingest.CauseBadDigest, false
	case errors.Is(err, fs.ErrNotExist):
		f.again = false
	}
	return f
}

// lost is the error about a file that no storage location has. It is temporary if one of them could not be read.
func (t *task) lost(f *ingest.StoredFile, faults []*fault) error {
	if len(faults) == 0 {
		return engine.Fail(ingest.CauseStorage,
			fmt.Errorf("%s: the inventory has no storage location of version %d", f.Path, t.spec.Version))
	}
	cause, again, words := ingest.CauseStorage, false, []string{}
	for _, one := range faults {
		again = again || one.again
		if one.cause == ingest.CauseBadDigest {
			cause = one.cause
		}
		words = append(words, one.place+": "+one.err.Error())
	}
	err := fmt.Errorf("%s cannot be had from any storage location: %s", f.Path, strings.Join(words, "; "))
	if again {
		return engine.Retry(&fault{cause: cause, again: true, err: err})
	}
	return engine.Fail(cause, err)
}

// check reads a file in one storage location to its end.
func (t *task) check(ctx context.Context, p *copyAt, f *ingest.StoredFile) (source, uint32, error) {
	if !p.looked {
		p.paths, p.err = t.app.options.Holdings.Content(ctx, t.spec.ARK, p.Place)
		p.looked = ctx.Err() == nil
	}
	if p.err != nil {
		return source{}, 0, p.err
	}
	at, ok := p.paths[f.Path]
	if !ok {
		return source{}, 0, fmt.Errorf("version %s there has no such file: %w", p.Name, fs.ErrNotExist)
	}
	in, err := t.app.options.Holdings.OpenContent(p.Dir, at)
	if err != nil {
		return source{}, 0, err
	}
	defer in.Close()
	s256, s512, crc := sha256.New(), sha512.New(), crc32.NewIEEE()
	before := t.read
	n, err := t.copyTo(ctx, io.MultiWriter(s256, s512, crc), io.LimitReader(in, f.Size+1))
	got256, got512 := hex.EncodeToString(s256.Sum(nil)), hex.EncodeToString(s512.Sum(nil))
	switch {
	case err != nil:
	case n != f.Size:
		err = fmt.Errorf("%w: it has not %d bytes", errDigest, f.Size)
	case !strings.EqualFold(got256, f.SHA256):
		err = fmt.Errorf("%w: sha256 is %s, not %s", errDigest, got256, f.SHA256)
	case !strings.EqualFold(got512, f.SHA512):
		err = fmt.Errorf("%w: sha512 is %s, not %s", errDigest, got512, f.SHA512)
	}
	if err != nil {
		t.read = before // these bytes will be read again elsewhere
		return source{}, 0, err
	}
	return source{Place: p.Dir, Path: at}, crc.Sum32(), nil
}
