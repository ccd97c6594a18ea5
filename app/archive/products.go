package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/app/archive/packaging"
	"github.com/stagepost/stagepost/app/archive/workdir"
	"github.com/stagepost/stagepost/internal/durable"
)

// lost is a file that the working directory lacks after it was packaged, and that no storage location has. Another
// attempt would not find it.
type lost struct{ error }

func (lost) Cause() string   { return "damaged" }
func (lost) Temporary() bool { return false }
func (l lost) Unwrap() error { return l.error }

// products are the files of the package and of its signature. What the working directory lost is taken from the copies
// that storage locations have by then.
type products struct {
	t    *task
	into *os.Root // of the package
	from *os.Root // of the gathered files
	made func(name string) (*os.File, error)
}

// products opens the products of the job. The caller closes them.
func (t *task) products() (p *products, err error) {
	p = &products{t: t}
	for name, root := range map[string]**os.Root{packageName: &p.into, workdir.ContentName: &p.from} {
		if err = t.dir.MkdirAll(name, 0o750); err == nil {
			*root, err = t.dir.OpenRoot(name)
		}
		if err != nil {
			p.close()
			return nil, err
		}
	}
	p.made, err = packaging.Opener(p.into, p.from)
	if errors.Is(err, fs.ErrNotExist) {
		p.made, err = p.into.Open, nil
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// close ends the use of the directories.
func (p *products) close() {
	for _, root := range []*os.Root{p.into, p.from} {
		if root != nil {
			_ = root.Close() // files are closed where they are written
		}
	}
}

// open opens a product.
func (p *products) open(ctx context.Context, name string) (*os.File, error) {
	f, err := p.made(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if f, err = p.into.Open(name); !errors.Is(err, fs.ErrNotExist) { // taken from a copy before
		return f, err
	}
	if err := p.fetch(ctx, name); err != nil {
		return nil, err
	}
	return p.into.Open(name)
}

// fetch takes a product from a good copy.
func (p *products) fetch(ctx context.Context, name string) error {
	from, err := p.t.app.options.Copies.Open(ctx, string(p.t.Job().ID), name, 0)
	var none *copies.ReadError
	if errors.As(err, &none) && !none.Transient {
		return lost{fmt.Errorf("the working directory lost %s, and no storage location has a copy: "+
			"archive the course again: %w", name, err)}
	}
	if err != nil {
		return err
	}
	defer from.Close()
	p.t.Log().Warn("the working directory lost a file; it is taken from a copy", "file", name)
	if err := p.into.MkdirAll(path.Dir(name), 0o750); err != nil {
		return err
	}
	return durable.File{Root: p.into, Name: name, Mode: 0o640}.Write(func(f *os.File) error {
		_, err := io.Copy(f, from)
		return err
	})
}
