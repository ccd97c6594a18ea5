package access

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/format/pack"
	"github.com/stagepost/stagepost/job"
)

// Package is a package that is open for reading.
type Package struct {
	*pack.Reader
	File     string // its name as a file
	Media    string
	ETag     string
	Modified time.Time

	dir  *os.Root
	tags map[string]*os.File
}

// ErrNotReady is a package that will be ready later, if all goes well.
var ErrNotReady = errors.New("the package is not ready yet")

// Open opens the package of a token. Kind Refused: it is not ready ([ErrNotReady]), or could not be made. Kind Gone: it
// is not there any more. Reading breaks off with [pack.ErrChanged] where storage does not have what was packed.
func (a *App) Open(ctx context.Context, token string) (*Package, error) {
	j, s, err := a.find(ctx, token)
	if err != nil {
		return nil, err
	}
	if err := a.past(j); err != nil {
		return nil, err
	}
	switch j.State {
	case record.Completed:
	case record.Failed:
		return nil, job.Errorf(job.Refused, "access", j.ID, "no package could be made: %s", j.Message)
	default:
		return nil, job.Errorf(job.Refused, "access", j.ID, "%w, it is %s", ErrNotReady, j.State)
	}
	d, err := dataOf(j)
	if err != nil {
		return nil, err
	}
	p := &Package{
		File: s.Name + formats[s.Format].ending, Media: formats[s.Format].media, ETag: etag(d), Modified: d.Modified,
		tags: map[string]*os.File{},
	}
	if err := p.open(a, j.ID); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, job.Errorf(job.Gone, "access", j.ID,
				"the package is not there any more: ask for the object again")
		}
		return nil, job.Errorf(job.Internal, "access", j.ID, "%w", err)
	}
	if p.Digest != d.Digest {
		return nil, errors.Join(job.Errorf(job.Internal, "access", j.ID, "the plan is not that of the record"),
			p.Close())
	}
	return p, nil
}

// open opens the plan and its tag files: what is open can be read to its end, even if the job is deleted meanwhile.
func (p *Package) open(a *App, id job.ID) error {
	dir, err := a.root.OpenRoot(path.Join(string(id), planName))
	if err != nil {
		return err
	}
	p.dir = dir
	tags, err := fs.Glob(dir.FS(), tagsName+"/*")
	for _, name := range tags {
		f, mistake := dir.Open(name)
		if mistake == nil {
			p.tags[path.Base(name)] = f
		}
		err = errors.Join(err, mistake)
	}
	if err != nil {
		return errors.Join(err, p.Close())
	}
	p.Reader, err = pack.Open(dir, func(text string) (pack.File, error) {
		from, err := parseSource(text)
		if err != nil {
			return nil, err
		}
		if from.Tag == "" {
			return a.options.Holdings.OpenContent(from.Place, from.Path)
		}
		if f := p.tags[from.Tag]; f != nil {
			return shared{f}, nil
		}
		return nil, fs.ErrNotExist
	})
	if err != nil {
		return errors.Join(err, p.Close())
	}
	return nil
}

// shared is a file that another reader closes.
type shared struct{ *os.File }

func (shared) Close() error { return nil }

// Close closes all that is open.
func (p *Package) Close() error {
	var err error
	if p.Reader != nil {
		err = p.Reader.Close()
	}
	for _, f := range p.tags {
		err = errors.Join(err, f.Close())
	}
	return errors.Join(err, p.dir.Close())
}
