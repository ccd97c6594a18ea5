package custody

import (
	"context"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// What the audit log has of acts that change no job.
const (
	eventHold    lifecycle.Event = "archive-hold"
	eventRelease lifecycle.Event = "archive-release"
	eventRequest lifecycle.Event = "archive-deletion"
	eventDecide  lifecycle.Event = "archive-decision"
	eventSearch  lifecycle.Event = "archive-search"
	eventErase   lifecycle.Event = "archive-erasure"
)

// Hold puts a legal hold on an archive: until it is released, nothing of the archive is deleted. Errors: NotFound;
// Refused if the archive is deleted or is being deleted.
func (c *Custody) Hold(ctx context.Context, id job.ID, h api.HoldArchive) ([]api.ArchiveHold, error) {
	if _, err := c.o.Catalog.Archive(ctx, string(id)); err != nil {
		return nil, refusal("hold", id, err)
	}
	if h.Name == "" || len(h.Name) > job.MostName || h.Note == "" || h.Actor == "" {
		return nil, job.Errorf(job.Invalid, "hold", id,
			"a legal hold needs the name of its case, a reason (--note WHY) and a person")
	}
	err := c.o.Catalog.Hold(ctx, catalog.Hold{
		Job: string(id), Name: h.Name, By: h.Actor, Reason: h.Note, Since: c.now(),
	})
	if err != nil {
		return nil, refusal("hold", id, err)
	}
	if err := c.audit(ctx, eventHold, h.Actor, string(id)+" "+h.Name, h.Note); err != nil {
		return nil, err
	}
	return c.Holds(ctx, id)
}

// Release releases a legal hold. A repetition changes nothing.
func (c *Custody) Release(ctx context.Context, id job.ID, name, actor, note string) ([]api.ArchiveHold, error) {
	if _, err := c.o.Catalog.Archive(ctx, string(id)); err != nil {
		return nil, refusal("release", id, err)
	}
	if name == "" || actor == "" || note == "" {
		return nil, job.Errorf(job.Invalid, "release", id,
			"a release needs the name of the hold, a reason (--note WHY) and a person")
	}
	if err := c.o.Catalog.Release(ctx, string(id), name, actor, c.now()); err != nil {
		return nil, refusal("release", id, err)
	}
	if err := c.audit(ctx, eventRelease, actor, string(id)+" "+name, note); err != nil {
		return nil, err
	}
	return c.Holds(ctx, id)
}

// Holds lists the legal holds on an archive, released ones included.
func (c *Custody) Holds(ctx context.Context, id job.ID) ([]api.ArchiveHold, error) {
	all, err := c.o.Catalog.Holds(ctx, string(id))
	if err != nil {
		return nil, err
	}
	views := make([]api.ArchiveHold, 0, len(all))
	for _, h := range all {
		views = append(views, api.ArchiveHold{
			Name: h.Name, By: h.By, Reason: h.Reason, Since: h.Since, Released: h.Released, ReleasedBy: h.ReleasedBy,
		})
	}
	return views, nil
}

// audit enters an act in the audit log.
func (c *Custody) audit(ctx context.Context, e lifecycle.Event, actor, object, note string) error {
	if c.engine == nil {
		return job.Errorf(job.Unavailable, "archive", "", "the engine does not run yet")
	}
	return c.engine.Operator().Audit(ctx, operator.Entry{Actor: actor, Event: e, Object: object, Note: note})
}
