package ingest

import (
	"errors"
	"io"
	"iter"
	"path"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/format/checkm"
)

// batchProfiles gives the manifest of each batch type.
var batchProfiles = map[string]*checkm.Profile{
	TypeBatchManifest: checkm.BatchManifests, TypeContainerBatchManifest: checkm.BatchContainers, TypeFileBatchManifest: checkm.BatchFiles,
}

// rowTypes gives the type of the jobs that a batch makes.
var rowTypes = map[string]string{
	TypeBatchManifest: TypeObjectManifest, TypeContainerBatchManifest: TypeContainer, TypeFileBatchManifest: TypeFile,
}

// rows reads a manifest from its beginning. It ends after the first error. Afterwards warn, if it is not nil, is called with what is odd but no
// reason to refuse it. A manifest without any header is taken for one of the profile that is wanted.
func rows(f io.ReadSeeker, name string, want *checkm.Profile, strict bool, warn func([]*checkm.Error)) iter.Seq2[checkm.Row, error] {
	return func(yield func(checkm.Row, error) bool) {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			yield(checkm.Row{}, err)
			return
		}
		if name == "" {
			name = "manifest"
		}
		o := checkm.Options{Strict: strict, Allow: []*checkm.Profile{want}, Assume: want}
		if want == checkm.ContainerObject {
			o.Assume = nil // nobody said that it is a manifest: it may have the name by chance
		}
		r := checkm.NewReader(name, f, o)
		if warn != nil {
			defer func() { warn(r.Warnings()) }()
		}
		for {
			row, err := r.Read()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// jobSpecs gives what the jobs of a batch are created with, one after the other and always the same. stop must be called.
func jobSpecs(f io.ReadSeeker, p *profile.Profile, s *record.BatchSpec, d *record.BatchData) (next func() (record.JobSpec, error), stop func()) {
	want := batchProfiles[d.Type]
	if want == nil {
		return func() (record.JobSpec, error) { return single(s, d), nil }, func() {}
	}
	pull, stop := iter.Pull2(rows(f, s.Filename, want, p.Strict, nil))
	return func() (record.JobSpec, error) {
		row, err, ok := pull()
		if !ok && err == nil {
			err = fail(CauseCorruptManifest, "the manifest has become shorter")
		}
		return ofRow(row, s, rowTypes[d.Type]), err
	}, stop
}

// single is the one job of a payload that is an object itself.
func single(s *record.BatchSpec, d *record.BatchData) record.JobSpec {
	return record.JobSpec{
		Type: d.Type, Profile: s.Profile, Submitter: s.Submitter, Filename: s.Filename, Size: s.Payload.Size,
		Digest: record.Digest{Type: s.DigestType, Value: s.DigestValue}, Title: s.Title, Creator: s.Creator, Date: s.Date,
		PrimaryID: s.PrimaryID, LocalIDs: s.LocalIDs, Note: s.Note, Update: s.Update, Bound: s.Bound,
	}
}

// ofRow is the job of a row. What the row leaves out is the batch's, but for identifiers, which belong to one object.
func ofRow(row checkm.Row, s *record.BatchSpec, typ string) record.JobSpec {
	j := record.JobSpec{
		Type: typ, Profile: s.Profile, Submitter: s.Submitter, URL: row.URL, Row: row.Line, Filename: row.FileName, Size: row.Size,
		Digest: record.Digest{Type: string(row.Digest.Algorithm), Value: row.Digest.Value}, Title: row.Title, Creator: row.Creator, Date: row.Date,
		PrimaryID: row.PrimaryID, LocalIDs: row.LocalIDs(), Note: s.Note, Update: s.Update, Bound: s.Bound,
	}
	if j.Title == "" {
		j.Title = s.Title
	}
	if j.Creator == "" {
		j.Creator = s.Creator
	}
	if j.Date == "" {
		j.Date = s.Date
	}
	if typ == TypeContainer {
		j.Filename = path.Base(j.Filename) // its suffix tells the kind
	}
	return j
}
