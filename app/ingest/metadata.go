package ingest

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/format/erc"
	"github.com/stagepost/stagepost/format/noid"
)

// described is the content of a metadata file.
type described struct {
	erc.Record
	core erc.DublinCore // all elements, of Dublin Core
	ids  []string       // as they are written
}

// metadataFiles are the descriptive files that depositors may hand in, the one that counts most first.
var metadataFiles = []struct {
	name string
	read func(*erc.Loose, io.Reader) (described, error)
}{
	{record.ERCName, readERC}, {record.DataCiteName, readDataCite}, {record.DublinCoreName, readDublinCore},
}

// readERC takes ids from every where: line, and from where-primary: and where-local:, as Merritt writes them.
func readERC(l *erc.Loose, in io.Reader) (described, error) {
	r, err := l.ERC(in)
	d := described{Record: r, ids: []string{r.Where}}
	for _, e := range r.More {
		switch strings.ToLower(e.Label) {
		case "where", "where-primary", "where-local":
			d.ids = append(d.ids, e.Value)
		}
	}
	return d, err
}

func readDublinCore(l *erc.Loose, in io.Reader) (described, error) {
	r, err := l.DublinCore(in)
	return described{Record: r.ERC(), core: r, ids: r.All("identifier")}, err
}

// readDataCite takes no ids: the identifier of a DataCite record is a DOI as a rule, and none of the archive.
func readDataCite(l *erc.Loose, in io.Reader) (described, error) {
	r, err := l.DataCite(in)
	return described{Record: r.ERC()}, err
}

// describe finds out the title, creator, date and ids of the object: from its metadata files, mrt-erc.txt first, then
// DataCite, then Dublin Core, else from the submission. Ids of all of them count together. The form of a descriptive
// file is no reason to refuse the object: what is odd in one is a warning.
func (t *task) describe() (who *record.Identity, primary string, err error) {
	who = &record.Identity{}
	ids := idsOf(&t.spec)
	for _, one := range metadataFiles {
		d, err := t.readMetadata(one.name, one.read)
		if err != nil {
			return nil, "", err
		}
		who.Title = cmp.Or(who.Title, record.Known(d.What))
		who.Creator = cmp.Or(who.Creator, record.Known(d.Who))
		who.Date = cmp.Or(who.Date, record.Known(d.When))
		t.handed.core = append(t.handed.core, d.core...)
		for _, id := range d.ids {
			if err := ids.add(one.name, id, t.warn); err != nil {
				return nil, "", err
			}
		}
	}
	s := &t.spec
	who.Title, who.Creator, who.Date = cmp.Or(who.Title, s.Title), cmp.Or(who.Creator, s.Creator), cmp.Or(who.Date,
		s.Date)
	who.LocalIDs = ids.local
	if who.Embargo, err = t.embargo(); err != nil {
		return nil, "", err
	}
	who.Embargo = cmp.Or(who.Embargo, t.handed.Embargo)
	return who, ids.primary, nil
}

// readMetadata reads a descriptive file, if it is there.
func (t *task) readMetadata(name string, read func(*erc.Loose, io.Reader) (described, error)) (d described, err error) {
	f, err := t.openProducer(name)
	if f == nil {
		return d, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var l erc.Loose
	if d, err = read(&l, f); err != nil {
		return d, fmt.Errorf("%s: %w", name, err)
	}
	for _, note := range l.Notes {
		t.warn("%s: %s. The file is stored as it is.", name, note)
	}
	return d, nil
}

// openProducer opens a file of the depositor; it is nil if there is none, or a directory of that name.
func (t *task) openProducer(name string) (io.ReadCloser, error) {
	f, err := t.dir.Open(workdir.ProducerName + "/" + name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() {
		return f, nil
	}
	return nil, errors.Join(err, f.Close())
}

// ids collects the identifiers of an object and where they were given.
type ids struct {
	primary string
	from    string // where the primary id is from
	local   []string
}

func idsOf(s *record.JobSpec) *ids {
	i := &ids{local: slices.Clone(s.LocalIDs)}
	if ark, err := noid.ParseARK(s.PrimaryID); s.PrimaryID != "" && err == nil {
		i.primary, i.from = ark.String(), "the submission"
	}
	return i
}

// add takes the ids of a metadata file, separated by semicolons: what has an ARK in it is the primary id, all else are
// local ids. Two primary ids contradict each other.
func (i *ids) add(file, text string, warn func(string, ...any)) error {
	for id := range strings.SplitSeq(text, ";") {
		id = strings.TrimSpace(id)
		if id == "" || erc.IsCoded(id) {
			continue
		}
		if err := record.CheckText(id); err != nil {
			warn("%s: an identifier is not used: %s.", file, err)
			continue
		}
		_, name, isARK := strings.Cut(id, "ark:")
		if !isARK {
			if !slices.Contains(i.local, id) {
				i.local = append(i.local, id)
			}
			continue
		}
		ark, err := noid.ParseARK("ark:" + name)
		if err != nil {
			return fail(CauseBadIdentifier, "%s: %q: %w", file, id, err)
		}
		if i.primary != "" && i.primary != ark.String() {
			return fail(CauseIdentifiers, "%s gives the primary id %s, %s gives %s", i.from, i.primary, file, ark)
		}
		if i.primary == "" {
			i.primary, i.from = ark.String(), file
		}
	}
	return nil
}

// maxEmbargo bounds mrt-embargo.txt, in bytes.
const maxEmbargo = 4096

// embargoForms are the dates that mrt-embargo.txt may have.
var embargoForms = []string{time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05", "2006-01-02"}

// embargo reads mrt-embargo.txt, whose one line is embargoEndDate: and a date, or none. It is no description but an
// instruction: what cannot be understood fails the job, so that nothing is shown to the public too early. The result is
// the date in RFC 3339, none, or empty without the file.
func (t *task) embargo() (end string, err error) {
	f, err := t.openProducer(record.EmbargoName)
	if f == nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return readEmbargo(f)
}

func readEmbargo(f io.Reader) (end string, err error) {
	data, err := io.ReadAll(io.LimitReader(f, maxEmbargo+1))
	if err != nil {
		return "", err
	}
	text, _ := erc.Text(data)
	if len(data) > maxEmbargo {
		return "", fail(CauseBadMetadata, "%s has more than %d bytes", record.EmbargoName, maxEmbargo)
	}
	in := bufio.NewScanner(strings.NewReader(text))
	for in.Scan() {
		line := strings.TrimSpace(in.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		label, value, _ := strings.Cut(line, ":")
		if !strings.EqualFold(strings.TrimSpace(label), "embargoEndDate") {
			return "", fail(CauseBadMetadata, "%s: %.80q is not embargoEndDate: and a date or none", record.EmbargoName,
				line)
		}
		date, ok := embargoEnd(strings.TrimSpace(value))
		if !ok {
			return "", fail(CauseBadMetadata, "%s: %.80q is neither a date such as 2030-01-31 nor none",
				record.EmbargoName, value)
		}
		if end != "" && end != date {
			return "", fail(CauseBadMetadata, "%s gives two dates, %s and %s", record.EmbargoName, end, date)
		}
		end = date
	}
	if end == "" {
		return "", fail(CauseBadMetadata, "%s gives no embargoEndDate", record.EmbargoName)
	}
	return end, in.Err()
}

func embargoEnd(value string) (string, bool) {
	if strings.EqualFold(value, "none") {
		return "none", true
	}
	for _, form := range embargoForms {
		if at, err := time.Parse(form, value); err == nil {
			return at.UTC().Format(time.RFC3339), true
		}
	}
	return "", false
}

// systemFiles makes what Stagepost adds to the object, in order of the paths. The files follow from the job alone, so
// that a second attempt makes the same. They have no digests yet.
func (t *task) systemFiles(p *profile.Profile, who *record.Identity) ([]listed, error) {
	texts := map[string]func(io.Writer) error{
		record.ERCName: func(w io.Writer) error { return erc.Write(w, ercOf(who)) },
		record.DublinCoreName: func(w io.Writer) error {
			return erc.WriteDublinCore(w,
				t.handed.dublinCore(who, t.warn))
		},
		record.IngestName:     func(w io.Writer) error { return t.writeIngest(w, p, who) },
		record.OwnerName:      func(w io.Writer) error { _, err := fmt.Fprintln(w, p.Owner); return err },
		record.MembershipName: func(w io.Writer) error { return writeMembership(w, p) },
		record.MOMName:        func(w io.Writer) error { return writeMOM(w, p, who) },
	}
	if d := dataCiteOf(who, p, t.handed.ResourceType); d.Enough() &&
		!t.handed.cited && !t.dir.Has(workdir.ProducerName+"/"+record.DataCiteName) {
		texts[record.DataCiteName] = func(w io.Writer) error { return erc.WriteDataCite(w, d) }
	}
	var files []listed
	add := func(name string, text []byte, source string) {
		files = append(files, listed{File: inventory.File{Path: workdir.SystemName + "/" + name}, Text: text,
			Source: source})
	}
	for name, write := range texts {
		var text bytes.Buffer
		if err := write(&text); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		add(name, text.Bytes(), "")
	}
	if t.spec.Type == TypeObjectManifest && (t.left == nil || t.dir.Has(manifestFile)) {
		add(record.ManifestName, nil, manifestFile)
	}
	if deletes := workdir.ProducerName + "/" + record.DeleteName; t.spec.Update && t.dir.Has(deletes) {
		add(record.DeleteName, nil, deletes)
	}
	slices.SortFunc(files, func(a, b listed) int { return cmp.Compare(a.Path, b.Path) })
	return t.withTaken(files)
}

func ercOf(who *record.Identity) erc.Record {
	r := erc.Record{Who: who.Creator, What: who.Title, When: who.Date, Where: who.ARK}
	for _, id := range who.LocalIDs {
		r.More = append(r.More, erc.Element{Label: "where", Value: id})
	}
	return r
}

func dublinCoreOf(who *record.Identity) erc.DublinCore {
	var all erc.DublinCore
	add := func(label, value string) {
		if value != "" {
			all = append(all, erc.Element{Label: label, Value: value})
		}
	}
	add("title", who.Title)
	add("creator", who.Creator)
	add("date", who.Date)
	add("identifier", who.ARK)
	for _, id := range who.LocalIDs {
		add("identifier", id)
	}
	return all
}

// The resource type of an object that has none.
const (
	noTypeGeneral = "Other"
	noType        = "digital object"
)

// generalType gives the general part of a resource type: Dataset of Dataset/Survey.
func generalType(typ string) string {
	general, _, _ := strings.Cut(typ, "/")
	return general
}

// dataCiteOf is the object as DataCite describes it. Without title, creator or a year it is not enough to be written.
func dataCiteOf(who *record.Identity, p *profile.Profile, typ string) erc.DataCite {
	d := erc.DataCite{
		Identifier: who.ARK, IdentifierType: "ARK", Publisher: p.Owner, PublicationYear: erc.Year(who.Date),
		ResourceType: noType, ResourceGeneral: noTypeGeneral,
	}
	if general, specific, _ := strings.Cut(typ, "/"); general != "" {
		d.ResourceGeneral, d.ResourceType = general, cmp.Or(specific, general)
	}
	for name := range strings.SplitSeq(who.Creator, ";") {
		if name = strings.TrimSpace(name); name != "" {
			d.Creators = append(d.Creators, name)
		}
	}
	if who.Title != "" {
		d.Titles = []string{who.Title}
	}
	if who.Date != "" {
		d.Dates = []erc.Element{{Label: "Created", Value: who.Date}}
	}
	for _, id := range who.LocalIDs {
		d.Alternates = append(d.Alternates, erc.Element{Label: "local", Value: id})
	}
	return d
}
