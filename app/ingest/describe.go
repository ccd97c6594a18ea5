package ingest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/format/erc"
)

// inherit takes from the version before what this one leaves out, and adds the local ids that the object has besides.
func (t *task) inherit(ctx context.Context, who *record.Identity) error {
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
	return nil
}

// writeSystem writes what Stagepost adds to the object. The files follow from the job alone, so that a second attempt writes the same.
func (t *task) writeSystem(p *profile.Profile, who *record.Identity) error {
	files := map[string]func(io.Writer) error{
		record.ERCName:        func(w io.Writer) error { return erc.Write(w, ercOf(who)) },
		record.DublinCoreName: func(w io.Writer) error { return erc.WriteDublinCore(w, dublinCoreOf(who)) },
		record.IngestName:     func(w io.Writer) error { return t.writeIngest(w, p, who) },
		record.OwnerName:      func(w io.Writer) error { _, err := fmt.Fprintln(w, p.Owner); return err },
		record.MembershipName: func(w io.Writer) error { _, err := fmt.Fprintln(w, p.Collection); return err },
	}
	if d := dataCiteOf(who, p); d.Enough() && !t.dir.Has(workdir.ProducerName+"/"+record.DataCiteName) {
		files[record.DataCiteName] = func(w io.Writer) error { return erc.WriteDataCite(w, d) }
	}
	if t.spec.Type == TypeObjectManifest {
		files[record.ManifestName] = t.copyFrom(manifestFile)
	}
	if t.spec.Update && t.dir.Has(workdir.ProducerName+"/"+record.DeleteName) {
		files[record.DeleteName] = t.copyFrom(workdir.ProducerName + "/" + record.DeleteName)
	}
	for name, write := range files {
		if err := t.dir.Put(workdir.SystemName+"/"+name, write); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (t *task) copyFrom(name string) func(io.Writer) error {
	return func(w io.Writer) error {
		f, err := t.dir.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(w, f)
		return err
	}
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

// dataCiteOf is the object as DataCite describes it. Without title, creator or a year it is not enough to be written.
func dataCiteOf(who *record.Identity, p *profile.Profile) erc.DataCite {
	d := erc.DataCite{
		Identifier: who.ARK, IdentifierType: "ARK", Publisher: p.Owner, PublicationYear: erc.Year(who.Date),
		ResourceType: "digital object", ResourceGeneral: "Other",
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

// writeIngest writes how the object came here, a line for each fact.
func (t *task) writeIngest(w io.Writer, p *profile.Profile, who *record.Identity) error {
	j := t.Job()
	for _, line := range [][2]string{
		{"ingest", "stagepost"}, {"batch", string(j.Parent)}, {"job", string(j.ID)}, {"profile", p.ID}, {"type", t.spec.Type},
		{"submitter", t.spec.Submitter}, {"submissionDate", j.Created.UTC().Format(time.RFC3339)},
		{"filename", t.spec.Filename}, {"note", t.spec.Note}, {"embargoEndDate", who.Embargo},
	} {
		if line[1] == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s: %s\n", line[0], line[1]); err != nil {
			return err
		}
	}
	return nil
}
