package workdir

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"

	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

// Batch opens the work directory of a batch, making it if there is none.
func (w *Tree) Batch(id job.ID) (*os.Root, error) {
	dir := filepath.Join(w.Data, WorkName, string(id))
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	return os.OpenRoot(dir)
}

// PartName names a file of a batch in its directory; part 0 is the payload.
func PartName(part int) string {
	if part == 0 {
		return PayloadName
	}
	return fmt.Sprintf("%s-%d", PayloadName, part+1)
}

// Stage brings a file of a batch to work/<batch>, see [PartName]: temporary name, sync, rename. When it returns, the
// file is on disk. After an error nothing of the batch is left.
func (w *Tree) Stage(ctx context.Context, id job.ID, part int, from io.Reader, most int64) (size int64, digest string,
	err error) {
	root, err := w.Batch(id)
	if err != nil {
		return 0, "", err
	}
	defer func() {
		err = errors.Join(err, root.Close())
		if err != nil {
			err = errors.Join(err, w.Unstage(id))
		}
	}()
	sum := sha256.New()
	err = PutFile(root, PartName(part), func(to io.Writer) error {
		n, err := io.Copy(io.MultiWriter(to, sum), LimitReader(ctx, from, most))
		size = n
		return err
	})
	if err != nil {
		return 0, "", fmt.Errorf("payload: %w", err)
	}
	work, err := os.OpenRoot(filepath.Join(w.Data, WorkName))
	if err != nil {
		return 0, "", err
	}
	return size, hex.EncodeToString(sum.Sum(nil)), errors.Join(durable.SyncIn(work, "."), work.Close())
}

// Unstage removes the directory of a batch that was not created.
func (w *Tree) Unstage(id job.ID) error {
	return os.RemoveAll(filepath.Join(w.Data, WorkName, string(id)))
}

// limited reads no more than it may, and stops when the context ends.
type limited struct {
	ctx  context.Context
	from io.Reader
	left int64
}

// LimitReader reads at most so many bytes; more are an error of kind Invalid.
func LimitReader(ctx context.Context, from io.Reader, most int64) io.Reader {
	return &limited{ctx: ctx, from: from, left: most}
}

func (l *limited) Read(b []byte) (int, error) {
	if err := l.ctx.Err(); err != nil {
		return 0, err
	}
	if l.left < 0 {
		return 0, job.Errorf(job.Invalid, "submit", "", "the payload is larger than its profile allows")
	}
	if int64(len(b)) > l.left+1 {
		b = b[:l.left+1]
	}
	n, err := l.from.Read(b)
	if l.left -= int64(n); l.left < 0 {
		return 0, job.Errorf(job.Invalid, "submit", "", "the payload is larger than its profile allows")
	}
	return n, err
}

// copies have the buffers of Copy.
var copies = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// Copy reads a file to its end, or until the context ends.
func Copy(ctx context.Context, to io.Writer, from io.Reader) error {
	buf := copies.Get().(*[]byte)
	defer copies.Put(buf)
	// LimitReader also hides the file's own WriteTo, which would not use the buffer.
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, LimitReader(ctx, from, math.MaxInt64-1), *buf)
	return err
}
