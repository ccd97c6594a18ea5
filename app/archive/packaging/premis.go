package packaging

import (
	"cmp"
	"fmt"

	"github.com/stagepost/stagepost/format/premis"
)

// The identifiers of agents.
const (
	softwareAgent     = "software"
	sourceAgent       = "source"
	organizationAgent = "organization"
)

func local(value string) premis.ID { return premis.ID{Type: "local", Value: value} }

// document describes the package, its activities and files, and what happened to them.
func (c *content) document() *premis.Document {
	d := &premis.Document{Agents: c.agents()}
	whole := premis.ID{Type: "URN", Value: c.facts.Job.Identifier}
	related := func(how string) []premis.Relationship {
		return []premis.Relationship{{Type: "structural", Subtype: how, Objects: []premis.ID{whole}}}
	}
	d.Objects = append(d.Objects, premis.Object{ID: whole, Category: premis.Representation, Name: c.name})
	for _, a := range c.facts.Activities {
		d.Objects = append(d.Objects, premis.Object{ID: activityID(a.ID), Category: premis.Intellectual,
			Related: related("is represented by")})
	}
	for i := range c.entries {
		e := &c.entries[i]
		o := premis.Object{ID: local(e.name), Category: premis.File, Size: e.size, Format: "application/octet-stream",
			Digests: []premis.Digest{{Algorithm: "SHA-256", Value: e.sha256}, {Algorithm: "SHA-512", Value: e.sha512}},
			Related: related("is included in")}
		if e.file != nil {
			o.Format, o.Name = cmp.Or(e.file.Origin.Type, o.Format), originalName(e)
		}
		d.Objects = append(d.Objects, o)
	}
	d.Events = c.events(whole)
	return d
}

func activityID(id string) premis.ID { return premis.ID{Type: "activity", Value: id} }

func (c *content) agents() []premis.Agent {
	agents := []premis.Agent{{ID: local(softwareAgent), Name: c.facts.Software.Name, Type: "software",
		Version: c.facts.Software.Version}}
	if s := c.facts.Source; s.Kind != "" || s.Name != "" {
		agents = append(agents, premis.Agent{ID: local(sourceAgent), Name: cmp.Or(s.Name, s.Kind), Type: "software",
			Version: s.Version})
	}
	if name := c.facts.Job.Organization; name != "" {
		agents = append(agents, premis.Agent{ID: local(organizationAgent), Name: name, Type: "organization"})
	}
	return agents
}

// events are those of the job, and those of packaging.
func (c *content) events(whole premis.ID) []premis.Event {
	all := append([]Event(nil), c.facts.Events...)
	at := c.facts.Job.Packaged
	all = append(all,
		Event{Type: "message digest calculation", Time: at, Detail: "SHA-256 and SHA-512 of every file",
			Outcome: "success"},
		Event{Type: "fixity check", Time: at, Detail: "every file was compared with its SHA-256 while it was copied",
			Outcome: "success"},
		Event{Type: "information package creation", Time: at, Detail: layoutVersion, Outcome: "success"})
	events := make([]premis.Event, len(all))
	for i, e := range all {
		object := whole
		if e.Activity != "" {
			object = activityID(e.Activity)
		}
		events[i] = premis.Event{ID: local(fmt.Sprintf("event-%04d", i+1)), Type: e.Type, Time: e.Time,
			Detail: e.Detail, Outcome: e.Outcome, Note: e.Note,
			Agents:  []premis.Link{{ID: local(softwareAgent), Role: "executing program"}},
			Objects: []premis.Link{{ID: object, Role: "source"}}}
	}
	return events
}
