package custody

import (
	"cmp"
	"context"
	"strconv"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/format/premis"
	"github.com/stagepost/stagepost/job"
)

// mostEvents is the number of events in the preservation metadata of an archive: the oldest.
const mostEvents = 10_000

// Preservation gives the preservation metadata (PREMIS 3.0) of an archive as it is now: its files with their digests
// and storage locations, and what happened to it since it was stored: copies, fixity checks, replacements, time stamps,
// legal holds, deletions. The metadata of what happened before are in the package. Errors: NotFound.
func (c *Custody) Preservation(ctx context.Context, id job.ID) (*premis.Document, error) {
	archive, err := c.o.Catalog.Archive(ctx, string(id))
	if err != nil {
		return nil, absent("premis", id, err)
	}
	whole := premis.ID{Type: "URN", Value: "urn:stagepost:job:" + archive.Job}
	d := &premis.Document{Objects: []premis.Object{
		{ID: whole, Category: premis.Representation, Name: archive.CourseName},
	}}
	all, err := c.o.Catalog.Copies(ctx, archive.Job, "")
	if err != nil {
		return nil, err
	}
	files := map[string]bool{}
	for i := range all {
		x := &all[i]
		if !files[x.Of.Path] {
			files[x.Of.Path] = true
			d.Objects = append(d.Objects, fileObject(&x.Of, whole))
		}
		if x.Good() {
			o := &d.Objects[len(d.Objects)-1] // copies are in order of their paths
			o.Storage = append(o.Storage, premis.Storage{Medium: x.Location, Location: x.Key})
		}
	}
	events, err := c.o.Catalog.Events(ctx, archive.Job, "", mostEvents)
	if err != nil {
		return nil, err
	}
	addEvents(d, inOrder(events, copyEvents(all, events)), files, whole)
	return d, d.Check()
}

func local(value string) premis.ID { return premis.ID{Type: "local", Value: value} }

func fileObject(x *catalog.Artifact, whole premis.ID) premis.Object {
	return premis.Object{
		ID: local(x.Path), Category: premis.File, Size: x.Size, Format: cmp.Or(x.MIME, "application/octet-stream"),
		Digests: []premis.Digest{{Algorithm: "SHA-256", Value: x.SHA256}, {Algorithm: "SHA-512", Value: x.SHA512}},
		Related: []premis.Relationship{{
			Type: "structural", Subtype: "is included in", Objects: []premis.ID{whole},
		}},
	}
}

// addEvents adds what happened, and the agents that did it.
func addEvents(d *premis.Document, events []catalog.Event, files map[string]bool, whole premis.ID) {
	agents := map[string]bool{}
	for i, e := range events {
		object := whole
		if files[e.Path] {
			object = local(e.Path)
		}
		who := "agent:" + cmp.Or(e.Agent, "stagepost")
		if !agents[who] {
			agents[who] = true
			d.Agents = append(d.Agents, agentOf(who, cmp.Or(e.Agent, "stagepost")))
		}
		d.Events = append(d.Events, premis.Event{
			ID: local("event-" + strconv.Itoa(i+1)), Type: e.Type, Time: e.At, Detail: e.Detail, Outcome: e.Outcome,
			Agents: []premis.Link{{ID: local(who), Role: "implementer"}}, Objects: []premis.Link{{ID: object}},
		})
	}
}

func agentOf(id, name string) premis.Agent {
	a := premis.Agent{ID: local(id), Name: name, Type: "person"}
	if name == "stagepost" || name == byRetention {
		a.Type = "software"
	}
	return a
}
