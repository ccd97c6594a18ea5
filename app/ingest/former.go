package ingest

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/format/erc"
	"github.com/stagepost/stagepost/format/ocfl"
)

// former reads the files of the version that an update builds on.
type former struct {
	app     *App
	version *inventory.Version
	paths   map[string]string // of its files in copy at, below the storage location
	at      int
}

// former opens a version of an object in the first of its storage locations that has it.
func (t *task) former(ctx context.Context, ark string, number int) (*former, error) {
	known, err := t.app.inventory.Objects(ctx, inventory.Query{ARK: ark})
	if err != nil {
		return nil, err
	}
	for _, o := range known {
		i := slices.IndexFunc(o.Versions, func(v inventory.Version) bool { return v.Number == number })
		if i < 0 {
			continue
		}
		f := &former{app: t.app, version: &o.Versions[i]}
		var faults error
		lost := true
		for at, place := range f.version.Places {
			if f.paths, err = t.app.Content(ctx, ark, place); err == nil {
				f.at = at
				return f, nil
			}
			lost = lost && errors.Is(err, ocfl.ErrNotFound)
			faults = errors.Join(faults, placeError(place.Dir, err))
		}
		if lost {
			return nil, fail(CauseStorage, "version %d of %s is recorded, and no storage location has it; run: "+
				"stagepost admin fsck", number, ark)
		}
		return nil, faults
	}
	return nil, fmt.Errorf("version %d of %s is not in the inventory", number, ark)
}

// open opens a file of the version; it is nil if there is none.
func (f *former) open(name string) (io.ReadCloser, error) {
	path, ok := f.paths[name]
	if !ok {
		return nil, nil
	}
	return f.app.OpenContent(f.version.Places[f.at].Dir, path)
}

func (f *former) has(name string) bool { return f.paths[name] != "" }

// readFormer reads a file of the version before, if it has one. It was checked when it came.
func readFormer[T any](f *former, name string, read func(io.Reader) (T, error)) (value T, err error) {
	in, err := f.open(name)
	if in == nil || err != nil {
		return value, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	return read(in)
}

// keepDescription completes the description of an update with that of the version before. What the submission has goes
// first. A descriptive file that is neither handed in again nor deleted still counts. Values that came with a form of
// an earlier submission are those of the system files that no descriptive file has.
func (t *task) keepDescription(ctx context.Context, who *record.Identity) error {
	if t.data.Before == 0 {
		return nil
	}
	f, err := t.former(ctx, who.ARK, t.data.Before)
	if err != nil {
		return err
	}
	gone, err := t.deleted()
	if err != nil {
		return err
	}
	stays := func(name string) bool {
		path := workdir.ProducerName + "/" + name
		return f.has(path) && !gone[path] && !t.dir.Has(path)
	}
	facts, err := readFormer(f, workdir.SystemName+"/"+record.IngestName, readFacts)
	if err != nil {
		return err
	}
	if err := t.keepCore(f, stays(record.DublinCoreName), facts[factResourceType]); err != nil {
		return err
	}
	t.handed.cited = stays(record.DataCiteName)
	if t.handed.ResourceType == "" {
		if t.handed.ResourceType, err = formerResourceType(f, facts); err != nil {
			return err
		}
	}
	if who.Embargo == "" {
		who.Embargo, err = formerEmbargo(f, facts[factEmbargo], stays(record.EmbargoName))
	}
	return err
}

// formerEmbargo gives the embargo of the version before, of which the fact was recorded; older versions lack it. A date
// of mrt-embargo.txt ends with the file, one of a later form does not.
func formerEmbargo(f *former, fact string, fileStays bool) (string, error) {
	end, known := embargoEnd(fact)
	if known && fileStays {
		return end, nil
	}
	ofFile, err := readFormer(f, workdir.ProducerName+"/"+record.EmbargoName, readEmbargo)
	switch {
	case err != nil:
		return "", err
	case fileStays:
		return ofFile, nil
	case fact != "" && !known: // it must not be shown to the public too early
		return "", fail(CauseBadMetadata, "the embargo of version %d, %.80q, is neither a date nor none: state the "+
			"embargo in the submission", f.version.Number, fact)
	case ofFile == end:
		return "", nil
	}
	return end, nil
}

// keepCore completes the Dublin Core of the submission. An element that its form has replaces that of earlier forms.
func (t *task) keepCore(f *former, fileStays bool, typ string) error {
	read := func(in io.Reader) (erc.DublinCore, error) { return new(erc.Loose).DublinCore(in) }
	all, err := readFormer(f, workdir.SystemName+"/"+record.DublinCoreName, read)
	if err != nil {
		return err
	}
	ofFile, err := readFormer(f, workdir.ProducerName+"/"+record.DublinCoreName, read)
	if err != nil {
		return err
	}
	own, err := readFormer(f, workdir.SystemName+"/"+record.ERCName, new(erc.Loose).ERC)
	if err != nil {
		return err
	}
	derived := slices.Concat(ofFile, erc.DublinCore{{Label: "title", Value: own.What},
		{Label: "creator", Value: own.Who}, {Label: "date", Value: own.When},
		{Label: "type", Value: generalType(typ)}})
	if fileStays {
		t.handed.core = ofFile
	}
	form := map[string][]string{}
	for _, e := range all {
		if e.Label != "identifier" || !knownID(&own, e.Value) {
			if !slices.Contains(derived, e) {
				form[e.Label] = append(form[e.Label], e.Value)
			}
		}
	}
	for element, values := range t.handed.DublinCore {
		form[element] = values
	}
	t.handed.DublinCore = form
	return nil
}

// knownID reports whether an ERC record has an identifier.
func knownID(r *erc.Record, id string) bool {
	return id == r.Where || slices.ContainsFunc(r.More, func(e erc.Element) bool { return e.Value == id })
}

// formerResourceType gives the resource type of the version before: that of mrt-ingest.txt, which older versions lack,
// else that of the DataCite record that was made then.
func formerResourceType(f *former, facts map[string]string) (string, error) {
	if typ := facts[factResourceType]; typ != "" {
		return LooseResourceType(typ), nil
	}
	d, err := readFormer(f, workdir.SystemName+"/"+record.DataCiteName,
		func(in io.Reader) (erc.DataCite, error) { return new(erc.Loose).DataCite(in) })
	if err != nil || d.ResourceGeneral == "" || d.ResourceGeneral == noTypeGeneral && d.ResourceType == noType {
		return "", err
	}
	return LooseResourceType(d.ResourceGeneral + "/" + d.ResourceType), nil
}

// Names in mrt-ingest.txt that an update reads.
const (
	factEmbargo      = "embargoEndDate"
	factResourceType = "resourceType"
)

// mostFacts bounds mrt-ingest.txt, in bytes.
const mostFacts = 16 << 20

// readFacts reads mrt-ingest.txt, whose lines are a name and a value. One that is too long is refused: the facts at its
// end count.
func readFacts(in io.Reader) (map[string]string, error) {
	facts := map[string]string{}
	left := &io.LimitedReader{R: in, N: mostFacts + 1}
	lines := bufio.NewScanner(left)
	lines.Buffer(nil, mostFacts)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		facts[name] = cmp.Or(facts[name], strings.TrimSpace(value))
	}
	if left.N == 0 || lines.Err() == bufio.ErrTooLong {
		return nil, fail(CauseBadMetadata, "%s of the version before has more than %d bytes", record.IngestName,
			mostFacts)
	}
	return facts, lines.Err()
}

// inherit takes from the version before what this one leaves out, and adds the local ids that the object has besides.
// An update notes the version: its description is kept, too.
func (t *task) inherit(ctx context.Context, who *record.Identity) error {
	t.data.Before = 0
	before, err := t.app.inventory.Objects(ctx, inventory.Query{ARK: who.ARK})
	if err != nil || len(before) == 0 {
		return err
	}
	who.Title = cmp.Or(who.Title, before[0].Title)
	who.Creator = cmp.Or(who.Creator, before[0].Creator)
	who.Date = cmp.Or(who.Date, before[0].Date)
	for _, id := range before[0].LocalIDs {
		if !slices.Contains(who.LocalIDs, id) {
			who.LocalIDs = append(slices.Clone(who.LocalIDs), id)
		}
	}
	if t.spec.Update {
		t.data.Before = before[0].Head
	}
	return nil
}
