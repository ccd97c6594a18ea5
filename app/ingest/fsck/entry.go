package fsck

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"io"
	"iter"
	"math"
	"mime"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/location"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/format/erc"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
)

// entry makes the entry of a stored version: of the files that Stagepost added to it, and of the record of its job, if
// there is one still.
func (r *rebuilding) entry(object *ocfl.Object, ark, name string, j *job.Job) (e inventory.Entry, minted bool,
	err error) {
	block := object.Inventory().Versions[name]
	e.ARK, e.Job = ark, jobOf(ark, name, block.Key())
	if e.Version, err = location.Number(name); err != nil {
		return e, false, err
	}
	if e.At, err = time.Parse(time.RFC3339, block.Created); err != nil {
		return e, false, err
	}
	e.Owner, e.Collection = line1(object, name, record.OwnerName), line1(object, name, record.MembershipName)
	facts := factsOf(object, name)
	e.Batch, e.Profile, e.Submitter, e.Note = facts["batch"], facts["profile"], facts["submitter"], facts["note"]
	if block.User != nil {
		e.Submitter = cmp.Or(e.Submitter, block.User.Name)
	}
	if text, err := small(object, name, record.ERCName); err == nil {
		if d, err := erc.Read(strings.NewReader(text)); err == nil {
			e.Title, e.Creator, e.Date = record.Known(d.What), record.Known(d.Who), record.Known(d.When)
			for _, more := range d.More {
				if more.Label == "where" && !slices.Contains(e.LocalIDs, more.Value) {
					e.LocalIDs = append(e.LocalIDs, more.Value)
				}
			}
		}
	}
	if j == nil {
		return e, false, nil
	}
	spec, err := record.SpecOf(j)
	if err != nil {
		return e, false, err
	}
	data, err := record.DataOf(j)
	if err != nil {
		return e, false, err
	}
	if spec.Profile != "" {
		e.Batch, e.Profile, e.Submitter, e.Note = string(j.Parent), spec.Profile, spec.Submitter, spec.Note
	}
	if who := data.Identity; who != nil && who.ARK == ark {
		e.Title, e.Creator, e.Date, e.LocalIDs, minted = who.Title, who.Creator, who.Date, who.LocalIDs, who.Minted
	}
	if p, ok := r.profiles.Get(e.Profile); ok {
		e.Owner, e.Collection = cmp.Or(e.Owner, p.Owner), cmp.Or(e.Collection, p.Collection)
	}
	return e, minted, nil
}

// small reads a small file that Stagepost added to a version.
func small(object *ocfl.Object, version, name string) (string, error) {
	in, err := object.Open(version, workdir.SystemName+"/"+name)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(in, 4<<20))
	return string(text), errors.Join(err, in.Close())
}

// line1 is the first line of such a file, "" if there is none.
func line1(object *ocfl.Object, version, name string) string {
	text, err := small(object, version, name)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(text, "\n")
	return first
}

// factsOf reads how a version came here.
func factsOf(object *ocfl.Object, version string) map[string]string {
	facts := map[string]string{}
	text, err := small(object, version, record.IngestName)
	if err != nil {
		return facts
	}
	for l := range strings.Lines(text) {
		if label, value, found := strings.Cut(strings.TrimRight(l, "\n"), ": "); found {
			facts[label] = value
		}
	}
	return facts
}

// summed is what only reading a file gives.
type summed struct {
	size   int64
	sha256 string
}

// files gives the files of a stored version for the inventory. Each content is read once for an object and held against
// its digest.
func (r *rebuilding) files(ctx context.Context, object *ocfl.Object, version, dir string,
	sums map[string]summed) iter.Seq2[inventory.File, error] {
	return func(yield func(inventory.File, error) bool) {
		stored, err := object.Files(version)
		if err != nil {
			yield(inventory.File{}, err)
			return
		}
		for _, s := range stored {
			sum, seen := sums[s.Digest]
			if !seen {
				if sum, err = r.sum(ctx, object, version, dir, s); err != nil {
					yield(inventory.File{}, err)
					return
				}
				sums[s.Digest] = sum
			}
			f := inventory.File{Path: s.Path, Size: sum.size, SHA256: sum.sha256, SHA512: strings.ToLower(s.Digest),
				MIME: mime.TypeByExtension(path.Ext(s.Path))}
			if !yield(f, nil) {
				return
			}
		}
	}
}

// sum reads a stored file. A damaged one is reported and entered with the digest that it should have.
func (r *rebuilding) sum(ctx context.Context, object *ocfl.Object, version, dir string, s ocfl.StoredFile) (got summed,
	err error) {
	in, err := object.Open(version, s.Path)
	if err != nil {
		r.fault("the storage location %s: %s of %s: %v", dir, s.Path, object.Inventory().ID, err)
		return got, nil
	}
	short, long := sha256.New(), sha512.New()
	got.size, err = io.Copy(io.MultiWriter(short, long), workdir.LimitReader(ctx, in, math.MaxInt64-1))
	err = errors.Join(err, in.Close())
	switch {
	case ctx.Err() != nil:
		return got, ctx.Err()
	case err != nil:
		r.fault("the storage location %s: %s of %s: %v", dir, s.Path, object.Inventory().ID, err)
		return got, nil
	}
	if algorithm := object.Inventory().DigestAlgorithm; algorithm == ocfl.SHA512 &&
		!strings.EqualFold(hex.EncodeToString(long.Sum(nil)), s.Digest) {
		r.fault("the storage location %s: the content of %s of %s does not match its digest", dir, s.Path,
			object.Inventory().ID)
		return got, nil
	}
	got.sha256 = hex.EncodeToString(short.Sum(nil))
	return got, nil
}
