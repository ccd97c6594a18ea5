package ingest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/format/erc"
)

// description is what a submission and its files have about an object, besides its identity.
type description struct {
	DublinCore   map[string][]string // of the form
	ResourceType string
	Embargo      string
	RetainTarget bool
	core         erc.DublinCore // of mrt-dc.xml
	cited        bool           // mrt-datacite.xml stays from the version before
}

// submitted gives the description in the batch's submission, or that of the job.
func (t *task) submitted(ctx context.Context) (*description, error) {
	d := &description{}
	if own := t.spec.Description; own != nil {
		d.DublinCore, d.ResourceType, d.RetainTarget = own.DublinCore, own.ResourceType, own.RetainTarget
		return d, nil
	}
	if !t.spec.Described {
		return d, nil
	}
	b, err := t.app.engine.Store().Get(ctx, t.Job().Parent)
	if err != nil {
		return nil, err
	}
	var s record.BatchSpec
	var data record.BatchData
	if err := decodeBoth(&b, &s, &data); err != nil {
		return nil, err
	}
	d.DublinCore, d.ResourceType, d.Embargo, d.RetainTarget = s.DublinCore, s.ResourceType, s.Embargo, s.RetainTarget
	return d, nil
}

// Bounds of a merged Dublin Core record, below those of its file.
const (
	mostElements = 5000
	mostCore     = 1 << 20 // bytes of values
)

// dublinCore merges the Dublin Core of an object: who and what it is, then the elements of mrt-dc.xml, then those of
// the form. None stands twice. The resource type is its type where nothing else is.
func (d *description) dublinCore(who *record.Identity, warn func(string, ...any)) erc.DublinCore {
	all := dublinCoreOf(who)
	seen := map[erc.Element]bool{}
	size := 0
	for _, e := range all {
		seen[e] = true
		size += len(e.Value)
	}
	more := slices.Clone(d.core)
	for _, element := range erc.Elements15 {
		for _, value := range d.DublinCore[element] {
			more = append(more, erc.Element{Label: element, Value: value})
		}
	}
	typed := func(e erc.Element) bool { return e.Label == "type" && strings.TrimSpace(e.Value) != "" }
	if general := generalType(d.ResourceType); general != "" && !slices.ContainsFunc(more, typed) {
		more = append(more, erc.Element{Label: "type", Value: general})
	}
	for _, e := range more {
		if seen[e] || strings.TrimSpace(e.Value) == "" {
			continue
		}
		if size += len(e.Value); size > mostCore || len(all) == mostElements {
			warn("system/%s has not all elements of Dublin Core: at most %d, of %d bytes.", record.DublinCoreName,
				mostElements,
				mostCore)
			break
		}
		seen[e] = true
		all = append(all, e)
	}
	return all
}

// writeLines writes names with values; those without a value are left out.
func writeLines(w io.Writer, lines [][2]string) error {
	for _, line := range lines {
		if line[1] == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s: %s\n", line[0], line[1]); err != nil {
			return err
		}
	}
	return nil
}

// writeMembership writes the collections of an object; the first is that of its profile.
func writeMembership(w io.Writer, p *profile.Profile) error {
	_, err := fmt.Fprintln(w, strings.Join(collections(p), "\n"))
	return err
}

func collections(p *profile.Profile) []string {
	all := []string{p.Collection}
	for _, c := range p.Collections {
		if !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	return all
}

// writeMOM writes what an object is in Merritt's object model.
func writeMOM(w io.Writer, p *profile.Profile, who *record.Identity) error {
	return writeLines(w, [][2]string{
		{"primaryIdentifier", who.ARK}, {"type", p.Type}, {"role", p.Role}, {"aggregate", p.Aggregate},
		{"localIdentifier", strings.Join(who.LocalIDs, "; ")},
	})
}

// writeIngest writes how the object came here, a line for each fact: the names of Merritt besides those of Stagepost.
// Addresses of mail are left out: what is stored stays.
func (t *task) writeIngest(w io.Writer, p *profile.Profile, who *record.Identity) error {
	j, s := t.Job(), &t.spec
	assigned, retrieved := "", ""
	switch {
	case who.Minted:
		assigned = who.ARK
	case s.PrimaryID == "":
		retrieved = who.ARK
	}
	return writeLines(w, [][2]string{
		{"ingest", "stagepost"}, {"batch", string(j.Parent)}, {"job", string(j.ID)}, {"profile", p.ID}, {"type",
			s.Type},
		{"submitter", s.Submitter}, {"userAgent", s.Submitter}, {"submissionDate",
			j.Created.UTC().Format(time.RFC3339)},
		{"filename", s.Filename}, {"file", s.Filename}, {"collection", strings.Join(collections(p), "; ")},
		{"suppliedIdentifier", cmp.Or(s.PrimaryID, "(:unas)")}, {"assignedIdentifier", assigned},
		{"retrievedIdentifier", retrieved}, {"localIdentifier", strings.Join(who.LocalIDs, "; ")},
		{"digestType", s.Digest.Type}, {"digestValue", s.Digest.Value}, {"creator", who.Creator}, {"title", who.Title},
		{"date", who.Date}, {"note", s.Note}, {factEmbargo, who.Embargo},
		{factResourceType, t.handed.ResourceType},
	})
}
