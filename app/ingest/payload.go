package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

// batchDir opens the work directory of a batch, making it if there is none.
func (a *App) batchDir(id job.ID) (*os.Root, error) {
	dir := filepath.Join(a.options.Dir, workName, string(id))
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	return os.OpenRoot(dir)
}

// stage brings a payload to work/<batch>/payload: temporary name, sync, rename. When it returns, the payload is on disk. After an error
// nothing is left.
func (a *App) stage(ctx context.Context, id job.ID, from io.Reader, most int64) (p payload, err error) {
	root, err := a.batchDir(id)
	if err != nil {
		return p, err
	}
	defer func() {
		err = errors.Join(err, root.Close())
		if err != nil {
			err = errors.Join(err, a.unstage(id))
		}
	}()
	sum := sha256.New()
	err = putFile(root, payloadName, func(w io.Writer) error {
		n, err := io.Copy(io.MultiWriter(w, sum), &limited{ctx: ctx, from: from, left: most})
		p.Size = n
		return err
	})
	if err != nil {
		return p, fmt.Errorf("payload: %w", err)
	}
	p.SHA256 = hex.EncodeToString(sum.Sum(nil))
	work, err := os.OpenRoot(filepath.Join(a.options.Dir, workName))
	if err != nil {
		return p, err
	}
	return p, errors.Join(durable.SyncIn(work, "."), work.Close())
}

// unstage removes the directory of a batch that was not created.
func (a *App) unstage(id job.ID) error {
	return os.RemoveAll(filepath.Join(a.options.Dir, workName, string(id)))
}

// limited reads no more than it may, and stops when the context ends.
type limited struct {
	ctx  context.Context
	from io.Reader
	left int64
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
