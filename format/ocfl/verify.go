package ocfl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Verified counts the files and bytes that VerifyVersion read.
type Verified struct {
	Files int   // logical files of the version
	Read  int   // content files, each read once for all its logical files
	Bytes int64 // of the content files
}

// VerifyVersion reads all content of a version ("" means the head) and compares digests and fixity values. The error
// is ErrDigest for other bytes, ErrCorrupt for a missing file; all faults are joined.
func (r *Root) VerifyVersion(ctx context.Context, id, version string) (Verified, error) {
	o, err := r.Object(id)
	if err != nil {
		return Verified{}, err
	}
	files, err := o.Files(version)
	if err != nil {
		return Verified{}, err
	}
	fixity := fixityByPath(o.inv)
	done := Verified{Files: len(files)}
	seen := make(map[string]bool, len(files))
	home, err := r.dir.OpenRoot(o.dir) // the names of content below it are short: opening them takes fewer steps
	if err != nil {
		return done, fmt.Errorf("object %q: %w", id, err)
	}
	defer home.Close()
	near := recent{root: home}
	defer near.leave()
	buf := newBuffer()
	defer buf.free()
	var faults []error
	for _, f := range files {
		if seen[f.Digest] {
			continue
		}
		seen[f.Digest] = true
		want := append([]stated{{o.inv.DigestAlgorithm, f.Digest}}, fixity[f.Content]...)
		n, err := verifyContent(ctx, &near, f.Content, want, *buf)
		if ctx.Err() != nil {
			return done, ctx.Err()
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("object %q: file %q: %w", id, f.Path, err))
		}
		done.Read++
		done.Bytes += n
	}
	return done, errors.Join(faults...)
}

// stated is a digest that some source states for a file.
type stated struct{ algorithm, digest string }

func fixityByPath(inv *Inventory) map[string][]stated {
	byPath := map[string][]stated{}
	for algorithm, block := range inv.Fixity {
		if newHash(algorithm) == nil {
			continue
		}
		for digest, paths := range block {
			for _, p := range paths {
				byPath[p] = append(byPath[p], stated{algorithm, digest})
			}
		}
	}
	return byPath
}

func verifyContent(ctx context.Context, near *recent, name string, want []stated, buf []byte) (int64, error) {
	at, base, err := near.in(name)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	f, err := openRegular(at, base)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	defer f.Close()
	algorithms := make([]string, 0, len(want))
	for _, w := range want {
		algorithms = append(algorithms, w.algorithm)
	}
	got := newSums(algorithms...)
	n, err := copyContext(ctx, got, f, buf)
	if err != nil {
		return n, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	for _, w := range want {
		if sum := got.hex(w.algorithm); !sameDigest(sum, w.digest) {
			return n, fmt.Errorf("%w: %s is %s, not %s", ErrDigest, w.algorithm, sum, w.digest)
		}
	}
	return n, nil
}

const copyBuffer = 256 << 10

// buffer is for one copy; free gives it to the next.
type buffer []byte

var buffers = sync.Pool{New: func() any { b := make(buffer, copyBuffer); return &b }}

func newBuffer() *buffer { return buffers.Get().(*buffer) }

func (b *buffer) free() { buffers.Put(b) }

// copyContext is io.CopyBuffer that ends with the context and always uses buf.
func copyContext(ctx context.Context, w io.Writer, r io.Reader, buf []byte) (int64, error) {
	var total int64
	for {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		n, err := r.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return total, werr
			}
			total += int64(n)
		}
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}
