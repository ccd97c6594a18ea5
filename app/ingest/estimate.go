package ingest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"path/filepath"
	"sync/atomic"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/edge/safename"
)

// wanted is a file that is to be fetched.
type wanted struct {
	name   string
	url    string
	digest record.Digest
	size   int64 // -1 when not known
	mime   string
}

// unknownPenalty is added to the priority of an object whose size cannot be known (seed 003: the priority may be
// adjusted).
const unknownPenalty = 10

// estimate is the step of Estimating: it asks for every size without fetching. An unknown size counts as 0 and lowers
// the priority; a name that occurs twice, or a file that is not there, fails the job.
func (t *task) estimate(ctx context.Context) error {
	p, err := t.app.profile(t.spec.Profile)
	if err != nil {
		return err
	}
	var done, size, unknown atomic.Int64
	client := t.app.client(p)
	err = each(ctx, t.app.options.Downloads, t.wanted(), func(ctx context.Context, w wanted) error {
		n, err := sizeOf(ctx, client, w)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		if n < 0 {
			unknown.Add(1)
		} else if size.Add(n) > p.Limits.Bytes {
			return fail(CauseTooLarge, "its files have more than the %d bytes that profile %s allows", p.Limits.Bytes,
				p.ID)
		}
		if done.Add(1) > int64(p.Limits.Files) {
			return fail(CauseTooLarge, "it has more than the %d files that profile %s allows", p.Limits.Files, p.ID)
		}
		t.Progress(done.Load(), int64(t.data.Files), "files")
		return nil
	})
	if err != nil {
		return err
	}
	t.data.Files, t.data.Size, t.data.Unknown = int(done.Load()), size.Load(), int(unknown.Load())
	if t.spec.URL == "" && t.spec.Type != TypeObjectManifest {
		t.data.Files, t.data.Size = 1, t.spec.Size
		if t.spec.Size > p.Limits.Bytes {
			return fail(CauseTooLarge, "it has %d bytes, profile %s allows %d", t.spec.Size, p.ID, p.Limits.Bytes)
		}
	}
	t.data.Space = space(p, t.spec.Type, t.data.Size)
	if t.data.Unknown > 0 {
		t.SetPriority(t.Job().Priority + unknownPenalty)
		t.Log().Info("sizes are not known", "files", t.data.Unknown)
	}
	return nil
}

// sizeOf returns the size of a file, -1 if it is unknown. Its error is final: the file does not exist or may not be
// fetched.
func sizeOf(ctx context.Context, client *fetch.Client, w wanted) (int64, error) {
	info, err := client.Head(ctx, w.url)
	var f *fetch.Error
	switch {
	case err == nil && info.Size >= 0:
		return info.Size, nil
	case errors.As(err, &f) && (f.Kind == fetch.NotFound || f.Kind == fetch.Refused || f.Kind == fetch.Invalid):
		return 0, err
	}
	return w.size, nil // what the manifest says, or unknown
}

// space is what an object of so many bytes needs on the working disk: the files, and a copy in every storage location
// of the data directory. A container needs space for itself besides; its content counts as twice its size.
func space(p *profile.Profile, typ string, size int64) int64 {
	content, extra := size, int64(0)
	if typ == TypeContainer {
		content, extra = times(size, 2), size
	}
	copies := int64(1)
	for _, dir := range p.Storage {
		if !filepath.IsAbs(dir) {
			copies++
		}
	}
	return plus(times(content, copies), extra)
}

// times and plus stop at the largest number instead of turning negative.
func times(a, n int64) int64 {
	if a > math.MaxInt64/4/n {
		return math.MaxInt64 / 4
	}
	return a * n
}

func plus(a, b int64) int64 { return min(a, math.MaxInt64/4) + min(b, math.MaxInt64/4) }

// wanted lists what is to be fetched, with clean names that can live side by side. An uploaded file or container is not
// fetched.
func (t *task) wanted() iter.Seq2[wanted, error] {
	return func(yield func(wanted, error) bool) {
		for _, w := range t.few {
			if !yield(w, nil) {
				return
			}
		}
		if t.few != nil {
			return
		}
		if t.spec.Type != TypeObjectManifest {
			if t.spec.URL == "" {
				return
			}
			name, err := t.fileName()
			yield(wanted{name: name, url: t.spec.URL, digest: t.spec.Digest, size: t.spec.Size}, err)
			return
		}
		names := safename.Set{Rules: t.app.names(t.spec.Profile)}
		for row, err := range t.rows() {
			w := wanted{}
			if err == nil {
				w, err = wantedOf(&names, row)
			}
			if !yield(w, err) || err != nil {
				return
			}
		}
	}
}

func ofFile(names *safename.Set, name string) (wanted, error) {
	clean, err := names.AddFile(name)
	return wanted{name: clean}, err
}
