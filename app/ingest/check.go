package ingest

import (
	"cmp"
	"fmt"
	"io"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/edge/safename"
	"github.com/stagepost/stagepost/edge/unpack"
	"github.com/stagepost/stagepost/format/checkm"
)

// ManifestCheck says what a payload would be taken for, and what is wrong with it.
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

// CheckManifest reads a payload as a submission to the profile would be read, without fetching anything: its type, its manifest to the end, the names
// and each row. An error is one of the payload's file.
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
	err := m.read(f, name, checkm.Object, p, func(row checkm.Row) error {
		_, err := wantedOf(&names, row)
		return err
	})
	if err == nil && m.Rows == 0 {
		err = errNoFile()
	}
	return err
}

func (m *ManifestCheck) batch(f io.ReadSeeker, name string, p *profile.Profile) error {
	s := &record.BatchSpec{Submission: Submission{Profile: p.ID}}
	err := m.read(f, name, batchProfiles[m.Type], p, func(row checkm.Row) error {
		one := ofRow(row, s, rowTypes[m.Type])
		return checkSpec(&one, p.Names.Rules())
	})
	if err == nil && m.Rows == 0 {
		err = errNoObject()
	}
	return err
}

// read reads a manifest to its end and looks at each row.
func (m *ManifestCheck) read(f io.ReadSeeker, name string, want *checkm.Profile, p *profile.Profile, look func(checkm.Row) error) error {
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
	return fail(CauseWrongType, "%q is no container: its name ends in none of .zip .tar .tar.gz .tgz .tar.bz2 .gz .bz2", name)
}

// wantedOf makes what is fetched of a row.
func wantedOf(names *safename.Set, row checkm.Row) (wanted, error) {
	w, err := ofFile(names, row.FileName)
	w.url, w.size, w.mime = row.URL, row.Size, row.MIMEType
	w.digest = record.Digest{Type: string(row.Digest.Algorithm), Value: row.Digest.Value}
	if err == nil && w.url == "" {
		err = fail(CauseCorruptManifest, "%s has no URL", w.name)
	}
	if err != nil {
		err = fmt.Errorf("line %d: %w", row.Line, err)
	}
	return w, err
}

// ManifestProfile gives the profile that a check goes by when there is no server: the built-in one, strict or not.
func ManifestProfile(strict bool, names profile.Names) (*profile.Profile, error) {
	set, err := profile.New(profile.Profile{ID: profile.Default, Strict: strict, Names: cmp.Or(names, profile.NamesPortable)})
	if err != nil {
		return nil, err
	}
	p, _ := set.Get(profile.Default)
	return p, nil
}
