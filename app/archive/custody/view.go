package custody

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/job"
)

// Query selects archives. Empty fields select all.
type Query struct {
	Source, Course, Activity string
	Owner                    string
	Outcome                  string // making, complete, failed or deleted
	After                    string // the next of the page before; empty: the first page
	Limit                    int    // defaults to 100
}

// Archives lists archives, the newest first.
func (c *Custody) Archives(ctx context.Context, q Query) (api.Archives, error) {
	if q.Limit == 0 {
		q.Limit = 100
	}
	all, err := c.o.Catalog.Archives(ctx, catalog.Query{
		Source: q.Source, Course: q.Course, Activity: q.Activity, Owner: q.Owner, Outcome: catalog.Outcome(q.Outcome),
		Before: q.After, Limit: q.Limit + 1,
	})
	page := api.Archives{Archives: []api.Archive{}}
	if len(all) > q.Limit {
		all = all[:q.Limit]
		page.Next = all[q.Limit-1].Job
	}
	for _, one := range all {
		page.Archives = append(page.Archives, viewArchive(&one))
	}
	return page, err
}

func viewArchive(x *catalog.Archive) api.Archive {
	return api.Archive{
		Job: job.ID(x.Job), Source: x.Source, Course: x.Course, CourseName: x.CourseName, Category: x.Category,
		Owner: x.Owner, Trigger: x.Origin, Outcome: string(x.Outcome), Created: x.Created, Ended: x.Ended,
	}
}

// Details gives all that is known of an archive. Errors: NotFound, also before its job has read the source.
func (c *Custody) Details(ctx context.Context, id job.ID) (d api.ArchiveDetails, err error) {
	archive, err := c.o.Catalog.Archive(ctx, string(id))
	if err != nil {
		return d, absent("show", id, err)
	}
	d.Archive = viewArchive(&archive)
	if err := json.Unmarshal(archive.Settings, &d.Settings); err != nil {
		return d, err
	}
	activities, err := c.o.Catalog.Activities(ctx, string(id))
	if err != nil {
		return d, err
	}
	d.Activities = []api.ArchiveActivity{}
	for i := range activities {
		d.Activities = append(d.Activities, ViewArchived(&activities[i]))
	}
	if err := c.more(ctx, id, &d); err != nil {
		return d, err
	}
	// after the tombstone, which a deletion writes when it has deleted the copies
	stored, err := c.o.Catalog.Copies(ctx, string(id), "")
	if err != nil {
		return d, err
	}
	sum(&d, stored)
	if err := c.objects(ctx, id, &d); err != nil {
		return d, err
	}
	return d, c.holders(ctx, id, &d)
}

// sum adds up the copies of an archive.
func sum(d *api.ArchiveDetails, all []catalog.Copy) {
	seen, at := map[int64]bool{}, map[string]int{}
	indefinitely := false
	d.Stored = []api.ArchiveStored{}
	for i := range all {
		x := &all[i]
		if !seen[x.Artifact] {
			seen[x.Artifact] = true
			d.Files, d.Bytes = d.Files+1, d.Bytes+x.Of.Size
		}
		if x.Replaced > 0 {
			continue
		}
		k, ok := at[x.Location]
		if !ok {
			k = len(d.Stored)
			at[x.Location], d.Stored = k, append(d.Stored, api.ArchiveStored{Location: x.Location})
		}
		addCopy(&d.Stored[k], x)
		if indefinitely = indefinitely || x.Retain.IsZero(); x.Retain.After(d.Retain) {
			d.Retain = x.Retain
		}
	}
	if indefinitely {
		d.Retain = time.Time{}
	}
}

// addCopy counts a copy in its location.
func addCopy(s *api.ArchiveStored, x *catalog.Copy) {
	switch {
	case !x.Deleted.IsZero():
		s.Deleted++
	case x.Verified.IsZero():
		s.Missing++
		s.Error = x.Error
	case !x.Good():
		s.Faults++
	default:
		s.Copies++
	}
	if x.Deleted.IsZero() && !x.LastFixity.IsZero() && (s.Checked.IsZero() || x.LastFixity.Before(s.Checked)) {
		s.Checked = x.LastFixity
	}
}

// more adds time stamps, holds, deletions, and the state of the job.
func (c *Custody) more(ctx context.Context, id job.ID, d *api.ArchiveDetails) (err error) {
	tokens, err := c.o.Catalog.Tokens(ctx, string(id))
	if err != nil {
		return err
	}
	for _, t := range tokens {
		d.Stamps = append(d.Stamps, api.ArchiveStamp{
			Path: t.Path, Generation: t.Generation, Time: t.Time, Authority: t.Authority, Expires: t.Expires,
		})
	}
	if d.Holds, err = c.Holds(ctx, id); err != nil {
		return err
	}
	deletions, err := c.o.Catalog.DeletionsOf(ctx, string(id))
	if err != nil {
		return err
	}
	for _, one := range deletions {
		d.Deletions = append(d.Deletions, viewDeletion(one))
	}
	switch t, err := c.o.Catalog.Tombstone(ctx, string(id)); {
	case err == nil:
		d.Tombstone = &api.ArchiveTombstone{
			Request: t.Deletion, By: t.By, ApprovedBy: t.ApprovedBy, Reason: t.Reason, Files: t.Artifacts,
			Copies: t.Copies, Bytes: t.Bytes, Digest: t.Digest, At: t.At,
		}
	case !errors.Is(err, catalog.ErrNotFound):
		return err
	}
	if c.engine == nil {
		return nil
	}
	j, err := c.engine.Store().Get(ctx, id)
	if job.KindOf(err) == job.NotFound {
		return nil
	}
	d.State, d.Message = j.State, j.Message
	return err
}

// holders adds who enforces the legal holds in each location.
func (c *Custody) holders(ctx context.Context, id job.ID, d *api.ArchiveDetails) error {
	if !slices.ContainsFunc(d.Holds, func(h api.ArchiveHold) bool { return h.Released.IsZero() }) {
		return nil
	}
	held, err := c.o.Catalog.Held(ctx, string(id))
	for i := range d.Stored {
		switch s := &d.Stored[i]; {
		case !c.o.Copies.HasHolds(s.Location):
			s.LegalHold = "stagepost"
		case held[s.Location] < s.Copies:
			s.LegalHold = "pending"
		default:
			s.LegalHold = "location"
		}
	}
	return err
}

// Artifacts lists the files of an archive with their copies, in order of their paths. Errors: NotFound.
func (c *Custody) Artifacts(ctx context.Context, id job.ID, after string, limit int) (api.ArchiveArtifacts, error) {
	if limit == 0 {
		limit = 100
	}
	page := api.ArchiveArtifacts{Artifacts: []api.ArchiveArtifact{}}
	if _, err := c.o.Catalog.Archive(ctx, string(id)); err != nil {
		return page, refusal("list", id, err)
	}
	all, err := c.o.Catalog.Artifacts(ctx, string(id), after, limit+1)
	if len(all) > limit {
		all = all[:limit]
		page.Next = all[limit-1].Path
	}
	if err != nil || len(all) == 0 {
		return page, err
	}
	stored, err := c.o.Catalog.CopiesBetween(ctx, string(id), all[0].Path, all[len(all)-1].Path)
	if err != nil {
		return page, err
	}
	of := map[int64][]api.ArchiveCopy{} // by artifact
	for i := range stored {
		if x := &stored[i]; x.Replaced == 0 {
			of[x.Artifact] = append(of[x.Artifact], viewCopy(x))
		}
	}
	for _, x := range all {
		page.Artifacts = append(page.Artifacts, api.ArchiveArtifact{
			Path: x.Path, Role: string(x.Role), Size: x.Size, SHA256: x.SHA256, SHA512: x.SHA512, Made: x.Created,
			Copies: of[x.ID],
		})
	}
	return page, nil
}

// viewCopy shows a copy with the digest that it had when it was read last.
func viewCopy(x *catalog.Copy) api.ArchiveCopy {
	v := api.ArchiveCopy{Location: x.Location, Generation: x.Generation, Verified: x.Verified, Deleted: x.Deleted}
	if x.Fixity != catalog.Unknown {
		v.Checked, v.Result = x.LastFixity, string(x.Fixity)
	}
	switch {
	case !x.Deleted.IsZero():
		v.State = "deleted"
	case x.Verified.IsZero():
		v.State, v.Detail = "planned", x.Error
	case x.Fixity == catalog.Absent:
		v.State, v.Detail = "missing", x.Detail
	case x.Fixity == catalog.Corrupt:
		v.State, v.Detail, v.SHA256 = "damaged", x.Detail, x.Found
	default: // it was compared with the digest of the artifact
		v.State, v.SHA256 = "verified", x.Of.SHA256
	}
	return v
}

// objects adds the versions of OCFL objects that the archive has in storage roots.
func (c *Custody) objects(ctx context.Context, id job.ID, d *api.ArchiveDetails) error {
	versions, err := c.o.Catalog.VersionsOf(ctx, string(id))
	for _, v := range versions {
		o := api.ArchiveObject{Location: v.Location, Object: v.Object, Version: v.Name, SHA512: v.Digest,
			Stored: v.Stored, Faults: v.Faults, Healed: v.Healed}
		if v.LastFixity.After(v.Stored) {
			o.Checked = v.LastFixity
		}
		d.Objects = append(d.Objects, o)
	}
	return err
}

// ViewArchived shows what an archive has of an activity.
func ViewArchived(x *catalog.Activity) api.ArchiveActivity {
	return api.ArchiveActivity{
		ID: x.Activity, Module: x.Module, Name: x.Name, Section: x.Section, URL: x.URL,
		State: string(catalog.Archived), Items: int(x.Items), Bytes: x.Bytes, Job: job.ID(x.Job), Archived: x.Archived,
		Drift: x.Drift,
	}
}
