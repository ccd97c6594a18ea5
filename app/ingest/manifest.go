package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/edge/safename"
	"github.com/stagepost/stagepost/edge/unpack"
	"github.com/stagepost/stagepost/format/checkm"
	"github.com/stagepost/stagepost/format/erc"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
)

// maxMetadata bounds a metadata file that is shown, in bytes.
const maxMetadata = 1 << 20

// Manifest opens the manifest of a job or batch as it was received, from wherever it lies: the working directory, the
// payload, a storage location. The caller closes it. Kinds of error: NotFound if it has none or it was not fetched yet,
// Gone if it was cleared away.
func (a *App) Manifest(ctx context.Context, id job.ID) (io.ReadCloser, error) {
	j, err := a.engine.Store().Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if j.Kind == record.BatchKind {
		return a.batchManifest(&j)
	}
	s, err := a.openView(ctx, id)
	if err != nil {
		return nil, err
	}
	defer s.close() // what was opened in it stays open
	if s.spec.Type != TypeObjectManifest {
		return nil, job.Errorf(job.NotFound, "manifest", id, "it was handed in as a %s and has no manifest of its own",
			s.spec.Type)
	}
	return s.openManifest(ctx)
}

// openManifest opens the manifest of a job of that type.
func (s *jobView) openManifest(ctx context.Context) (io.ReadCloser, error) {
	if s.has(manifestFile) {
		return s.dir.Open(manifestFile)
	}
	if s.ark != "" {
		f, err := s.openStored(ctx, workdir.SystemName+"/"+record.ManifestName)
		if !errors.Is(err, ocfl.ErrNotFound) {
			return f, err
		}
	}
	if s.spec.URL == "" {
		if f, err := s.staged(s.job.Parent, s.spec.Part); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	switch {
	case s.job.Gone || s.job.Ended || s.spec.URL == "":
		return nil, job.Errorf(job.Gone, "manifest", s.job.ID, "its manifest was cleared away")
	default:
		return nil, job.Errorf(job.NotFound, "manifest", s.job.ID, "its manifest is at %s and was not fetched yet",
			s.spec.URL)
	}
}

// staged opens a file of a batch as it is staged; the error is fs.ErrNotExist if there is none.
func (a *App) staged(batch job.ID, part int) (*os.File, error) {
	root, err := os.OpenRoot(filepath.Join(a.options.Dir, workdir.WorkName, string(batch)))
	if err != nil {
		return nil, err
	}
	f, err := root.Open(workdir.PartName(part))
	return f, errors.Join(err, root.Close())
}

// batchManifest opens the payload of a batch if it is a manifest.
func (a *App) batchManifest(j *job.Job) (io.ReadCloser, error) {
	var s record.BatchSpec
	var d record.BatchData
	if err := decodeBoth(j, &s, &d); err != nil {
		return nil, err
	}
	f, err := a.staged(j.ID, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, job.Errorf(job.Gone, "manifest", j.ID,
			"its payload was cleared away: a payload stays until every object of it is stored")
	}
	if err != nil {
		return nil, err
	}
	typ := cmp.Or(d.Type, s.Type)
	damaged := false
	if typ == "" {
		typ, err = detect(f, s.Filename)
		if damaged = final(err); err != nil && !damaged {
			return nil, errors.Join(err, f.Close())
		}
	}
	if batchProfiles[typ] == nil && typ != TypeObjectManifest && !damaged {
		return nil, errors.Join(job.Errorf(job.NotFound, "manifest", j.ID, "its payload is a %s, not a manifest", typ),
			f.Close())
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// openStored opens a file of the version that the job stored, in the first storage location that has it.
func (s *jobView) openStored(ctx context.Context, name string) (io.ReadCloser, error) {
	objects, err := s.inventory.Objects(ctx, inventory.Query{ARK: s.ark})
	if err != nil {
		return nil, err
	}
	missing := fmt.Errorf("%s of %s: %w", name, s.ark, ocfl.ErrNotFound)
	for i := range objects {
		for _, v := range objects[i].Versions {
			if v.Number != s.head {
				continue
			}
			for _, p := range v.Places {
				f, err := s.openIn(ctx, p, name)
				if err == nil {
					return f, nil
				}
				missing = err
			}
		}
	}
	return nil, missing
}

func (s *jobView) openIn(ctx context.Context, p inventory.Place, name string) (io.ReadCloser, error) {
	root, there, err := s.locations.Existing(ctx, p.Dir)
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, fmt.Errorf("storage location %s: %w", p.Dir, ocfl.ErrNotFound)
	}
	o, err := root.Object(s.ark)
	if err != nil {
		return nil, err
	}
	return o.Open(p.Name, name)
}

// Metadata is the description of a job's object.
type Metadata = api.Metadata

// Metadata gives ERC and Dublin Core of a job's object: as they are stored; else as Processing wrote them; else those
// of the submission.
func (a *App) Metadata(ctx context.Context, id job.ID) (m Metadata, err error) {
	s, err := a.openView(ctx, id)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	m = Metadata{Job: id, ARK: s.ark, Version: s.head, Note: s.gone()}
	if who, _ := s.data.Object(); who != nil {
		m.ARK, m.Embargo = cmp.Or(s.ark, who.ARK), who.Embargo
	}
	read := func(open func(string) (io.ReadCloser, error)) error {
		for name, into := range map[string]*string{record.ERCName: &m.ERC, record.DublinCoreName: &m.DublinCore} {
			f, err := open(workdir.SystemName + "/" + name)
			if err != nil {
				return err
			}
			text, err := io.ReadAll(io.LimitReader(f, maxMetadata))
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
			*into = string(text)
		}
		return nil
	}
	if s.ark != "" {
		m.Source = "storage"
		err := read(func(name string) (io.ReadCloser, error) { return s.openStored(ctx, name) })
		if !errors.Is(err, ocfl.ErrNotFound) {
			return m, err
		}
		m.Note = strings.Trim(m.Note+"; no storage location has the version's metadata", "; ")
	}
	if s.has(ownList) {
		m.Source = "work"
		return m, read(s.openOwn)
	}
	m.Source = "submission"
	who, _ := s.data.Object()
	if who == nil {
		who = &record.Identity{
			ARK: printable(s.spec.PrimaryID), Title: printable(s.spec.Title), Creator: printable(s.spec.Creator),
			Date: printable(s.spec.Date),
		}
		for _, id := range s.spec.LocalIDs {
			who.LocalIDs = append(who.LocalIDs, printable(id))
		}
	}
	var text, xml strings.Builder
	err = errors.Join(erc.Write(&text, ercOf(who)), erc.WriteDublinCore(&xml, dublinCoreOf(who)))
	m.ERC, m.DublinCore = text.String(), xml.String()
	return m, err
}

// openOwn opens a file of those that the job brings, as Processing listed them.
func (s *jobView) openOwn(name string) (io.ReadCloser, error) {
	for f, err := range workdir.Lines[listed](s.dir.Root, ownList) {
		if err != nil {
			return nil, err
		}
		if f.Path == name {
			return f.open(s.dir)
		}
	}
	return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
}

// printable gives a text of a row that was refused so that XML can carry it: the characters that it cannot are shown as
// U+FFFD.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == 0xfffe || r == 0xffff {
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(strings.TrimSpace(text), "\ufffd"))
}

// Handed is what was handed in with a batch.
type Handed = api.Handed

// Submission gives what was handed in with a batch.
func (a *App) Submission(ctx context.Context, id job.ID) (Handed, error) {
	j, err := a.engine.Store().Get(ctx, id)
	if err != nil {
		return Handed{}, err
	}
	if j.Kind != record.BatchKind {
		return Handed{}, job.Errorf(job.Invalid, "submission", id, "it is of kind %s, not a batch", j.Kind)
	}
	var s record.BatchSpec
	var d record.BatchData
	if err := decodeBoth(&j, &s, &d); err != nil {
		return Handed{}, err
	}
	h := Handed{Batch: id, Submission: s.Submission, Type: cmp.Or(d.Type, s.Type), Size: s.Payload.Size,
		SHA256: s.Payload.SHA256, Jobs: d.Jobs}
	for _, m := range s.More {
		h.More = append(h.More, api.HandedFile{Filename: m.Filename, Size: m.Size, SHA256: m.SHA256})
	}
	f, err := a.staged(id, 0)
	switch {
	case err == nil:
		h.Staged = true
		return h, f.Close()
	case errors.Is(err, fs.ErrNotExist) && j.Gone:
		h.Note = "the batch was deleted, and its payload with it"
	case errors.Is(err, fs.ErrNotExist):
		h.Note = "its payload was cleared away when every object of it was stored"
	default:
		return h, err
	}
	return h, nil
}

// ManifestCheck is what a payload would be read as, and its mistakes.
type ManifestCheck struct {
	Type     string    `json:"type"` // one of Types; empty if it would be refused before that is known
	Rows     int       `json:"rows,omitempty"`
	Bytes    int64     `json:"bytes,omitempty"`   // that the rows give
	Unknown  int       `json:"unknown,omitempty"` // rows without a size
	Warnings []string  `json:"warnings,omitempty"`
	Problems []Problem `json:"problems,omitempty"` // why it, or an object of it, would fail
}

// Problem is a reason for which a submission, or a row of it, would fail.
type Problem struct {
	Row   int    `json:"row,omitempty"` // line of the manifest; 0 for the manifest as a whole
	Cause string `json:"cause"`
	Text  string `json:"text"`
}

// maxProblems bounds the problems with rows that are listed.
const maxProblems = 100

// CheckManifest reads a payload as a submission to the profile would be read, without fetching anything: its type, its
// manifest to the end, the names and each row. A URL that no job would fetch is a problem of its row; networks are not
// checked, which profiles may allow. An error is one of the payload's file.
func CheckManifest(f io.ReadSeeker, name, typ string, p *profile.Profile) (ManifestCheck, error) {
	m := ManifestCheck{Type: typ}
	var err error
	if typ == "" {
		if m.Type, err = detect(f, name); err != nil {
			return m, m.problem(0, err)
		}
	}
	switch {
	case m.Type == TypeContainer:
		if _, _, ok := unpack.KindOf(name); !ok {
			err = notContainer(name)
		}
	case m.Type == TypeObjectManifest:
		err = m.object(f, name, p)
	case batchProfiles[m.Type] != nil:
		err = m.batch(f, name, p)
	}
	return m, m.problem(0, err)
}

// problem notes an error that would fail the submission or the row, and returns any other.
func (m *ManifestCheck) problem(row int, err error) error {
	if err = named(err); err == nil || !final(err) {
		return err
	}
	if len(m.Problems) < maxProblems {
		m.Problems = append(m.Problems, Problem{Row: row, Cause: causeOf(err), Text: err.Error()})
	}
	return nil
}

func (m *ManifestCheck) object(f io.ReadSeeker, name string, p *profile.Profile) error {
	names := safename.Set{Rules: p.Names.Rules()}
	client := fetch.New(outward(fetch.Policy{}))
	defer client.Close()
	err := m.read(f, name, checkm.Object, p, func(row checkm.Row) error {
		w, err := wantedOf(&names, row)
		if err == nil {
			err = inLine(row, client.Check(w.url))
		}
		return err
	})
	if err == nil && m.Rows == 0 {
		err = errNoFile()
	}
	return err
}

func (m *ManifestCheck) batch(f io.ReadSeeker, name string, p *profile.Profile) error {
	s := &record.BatchSpec{Submission: Submission{Profile: p.ID}}
	client := fetch.New(outward(fetch.Policy{}))
	defer client.Close()
	err := m.read(f, name, batchProfiles[m.Type], p, func(row checkm.Row) error {
		one := ofRow(row, s, rowTypes[m.Type])
		return inLine(row, cmp.Or(checkSpec(&one, p.Names.Rules()), client.Check(one.URL)))
	})
	if err == nil && m.Rows == 0 {
		err = errNoObject()
	}
	return err
}

// read reads a manifest to its end and checks each row.
func (m *ManifestCheck) read(f io.ReadSeeker, name string, want *checkm.Profile, p *profile.Profile,
	look func(checkm.Row) error) error {
	warn := func(all []*checkm.Error) {
		for _, e := range all {
			m.Warnings = append(m.Warnings, e.Error())
		}
	}
	for row, err := range rows(f, name, want, p.Strict, warn) {
		if err != nil {
			return err
		}
		m.Rows++
		if row.Size < 0 {
			m.Unknown++
		} else {
			m.Bytes = plus(m.Bytes, row.Size)
		}
		if err := m.problem(row.Line, look(row)); err != nil {
			return err
		}
	}
	return nil
}

// Reasons that a submission and its check have in common.
func errNoFile() error   { return fail(CauseEmptyManifest, "the manifest names no file") }
func errNoObject() error { return fail(CauseEmptyManifest, "the manifest names no object") }

func notContainer(name string) error {
	return fail(CauseWrongType, "%q is no container: its name ends in none of .zip .tar .tar.gz .tgz .tarz .tar.bz2 "+
		".tbz2 .gz .bz2", name)
}

// wantedOf makes what is fetched of a row.
func wantedOf(names *safename.Set, row checkm.Row) (wanted, error) {
	w, err := ofFile(names, row.FileName)
	w.url, w.size, w.mime = row.URL, row.Size, row.MIMEType
	w.digest = record.Digest{Type: string(row.Digest.Algorithm), Value: row.Digest.Value}
	if err == nil && w.url == "" {
		err = fail(CauseCorruptManifest, "%s has no URL", w.name)
	}
	if wrong := checkSource(w.url, w.digest); err == nil && wrong != nil {
		err = fail(CauseCorruptManifest, "%s: %w", w.name, wrong)
	}
	return w, inLine(row, err)
}

// inLine adds the line of a row to its error.
func inLine(row checkm.Row, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("line %d: %w", row.Line, err)
}

// ManifestProfile gives the profile that a check goes by when there is no server: the built-in one, strict or not.
func ManifestProfile(strict bool, names profile.Names) (*profile.Profile, error) {
	set, err := profile.New(profile.Profile{ID: profile.Default, Strict: strict,
		Names: cmp.Or(names, profile.NamesPortable)})
	if err != nil {
		return nil, err
	}
	p, _ := set.Get(profile.Default)
	return p, nil
}
