package custody

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/job"
)

// mostPeople is the number of persons that a search gives.
const mostPeople = 100

// People finds persons whose data archives contain: by their id in the source, username, number or mail address, or by
// a part of their name of at least three characters. The audit log has who searched and why, not for whom.
func (c *Custody) People(ctx context.Context, f api.FindPeople) (api.ArchivePeople, error) {
	text := strings.TrimSpace(f.Text)
	if text == "" {
		return api.ArchivePeople{}, job.Errorf(job.Invalid, "people", "",
			"a search needs a text: a name, a username, a number or a mail address")
	}
	if err := c.audit(ctx, eventSearch, f.Actor, "people", f.Note); err != nil {
		return api.ArchivePeople{}, err
	}
	all, err := c.o.Catalog.People(ctx, text, mostPeople+1)
	found := api.ArchivePeople{People: []api.ArchivePerson{}, More: len(all) > mostPeople}
	for _, p := range all[:min(len(all), mostPeople)] {
		found.People = append(found.People, viewPerson(p))
	}
	return found, err
}

// PersonData gives what archives have of a person. Errors: NotFound. The audit log has who asked and why.
func (c *Custody) PersonData(ctx context.Context, p api.NamePerson) (api.ArchivePersonData, error) {
	d, err := c.personData(ctx, p.Source, p.ID)
	if err != nil {
		return d, err
	}
	return d, c.audit(ctx, eventSearch, p.Actor, p.Source+" "+p.ID, p.Note)
}

func (c *Custody) personData(ctx context.Context, source, person string) (d api.ArchivePersonData, err error) {
	p, err := c.o.Catalog.Person(ctx, source, person)
	if err != nil {
		return d, refusal("people", "", err)
	}
	contents, err := c.o.Catalog.ContentsOf(ctx, source, person)
	if err != nil {
		return d, err
	}
	d = api.ArchivePersonData{
		Person: viewPerson(p), Archives: []api.Archive{}, Contents: []api.ArchivePersonContent{},
	}
	courses := map[string]string{}
	for _, x := range contents {
		if _, ok := courses[x.Job]; !ok {
			archive, err := c.o.Catalog.Archive(ctx, x.Job)
			if err != nil {
				return d, refusal("people", job.ID(x.Job), err)
			}
			courses[x.Job] = archive.Course
			d.Archives = append(d.Archives, viewArchive(&archive))
		}
		d.Contents = append(d.Contents, api.ArchivePersonContent{
			Job: job.ID(x.Job), Course: courses[x.Job], Activity: x.Activity, Item: x.Item, Kind: x.Kind, Path: x.Path,
			Title: x.Title,
		})
	}
	return d, nil
}

// ErasePerson removes a person from the catalog and records that. The packages are not changed: the record lists the
// archives whose deletion has to be requested. Errors: NotFound; Refused if a legal hold covers one of the archives, or
// if another number of contents has data of the person than is expected.
func (c *Custody) ErasePerson(ctx context.Context, e api.ErasePerson) (api.ArchiveErasure, error) {
	if e.Note == "" || e.Actor == "" {
		return api.ArchiveErasure{}, job.Errorf(job.Invalid, "erase", "", "note and a person are needed: why, and who")
	}
	d, err := c.personData(ctx, e.Source, e.ID)
	if err != nil {
		return api.ArchiveErasure{}, err
	}
	if e.Expect == nil || *e.Expect != len(d.Contents) {
		return api.ArchiveErasure{}, job.Errorf(job.Refused, "erase", "",
			"nothing was erased: %d contents have data of the person: repeat it with this number as expect",
			len(d.Contents))
	}
	for _, archive := range d.Archives {
		holds, err := c.o.Catalog.Holds(ctx, string(archive.Job))
		if err != nil {
			return api.ArchiveErasure{}, err
		}
		if i := slices.IndexFunc(holds, func(h catalog.Hold) bool { return h.Released.IsZero() }); i >= 0 {
			return api.ArchiveErasure{}, job.Errorf(job.Refused, "erase", archive.Job,
				"nothing was erased: the legal hold %q covers the archive", holds[i].Name)
		}
	}
	id := "era-" + strings.ToLower(rand.Text())
	done, err := c.o.Catalog.Erase(ctx, e.Source, e.ID,
		catalog.Erasure{ID: id, By: e.Actor, Reason: e.Note, At: c.now()})
	if err != nil {
		return api.ArchiveErasure{}, err
	}
	v := api.ArchiveErasure{
		Request: done.ID, By: done.By, Reason: done.Reason, Contents: done.Contents, Archives: []job.ID{}, At: done.At,
	}
	for _, one := range done.Archives {
		v.Archives = append(v.Archives, job.ID(one))
	}
	return v, c.audit(ctx, eventErase, e.Actor, done.ID, e.Note)
}

func viewPerson(p catalog.Person) api.ArchivePerson {
	return api.ArchivePerson{
		Source: p.Source, ID: p.ID, Username: p.Username, Number: p.Number, Name: p.Name, Email: p.Email,
	}
}
