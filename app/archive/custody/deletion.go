package custody

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// An archive is deleted in this order, and every step can be repeated:
//
//	request -> approval (early: of a second person) -> it is executed: no hold can come any more
//	-> commit of the event delete with a message -> the message deletes the copies -> tombstone
//
// After a crash between them, [Custody.Expire] continues.

// deleteTopic is the topic of the messages that delete the copies of an archive.
const deleteTopic = "archive.delete"

// byRetention is who deletes an archive whose retention time has ended.
const byRetention = "retention"

// Deliver has the deliveries of the application's messages.
func (c *Custody) Deliver() map[string]engine.Deliver {
	return map[string]engine.Deliver{deleteTopic: c.deliverDeletion}
}

// now is the time by a clock that is not ahead of the trusted one.
func (c *Custody) now() time.Time {
	if c.engine != nil {
		if t, ok := c.engine.Clock().Before(0); ok {
			return t
		}
	}
	return time.Now()
}

// ended is the time by which retention times are compared: none while the clock is in doubt.
func (c *Custody) ended() (time.Time, error) {
	if c.engine == nil {
		return time.Time{}, job.Errorf(job.Unavailable, "delete", "", "the engine does not run yet")
	}
	t, ok := c.engine.Clock().Before(0)
	if !ok {
		return t, job.Errorf(job.Unavailable, "delete", "", "the clock is in doubt, so no retention time "+
			"is known to have ended: stagepost admin clock --confirm")
	}
	return t, nil
}

// RequestDeletion requests that an archive is deleted. If its retention time has ended it is deleted at once; else
// another person has to approve it ([Custody.DecideDeletion]). A person cannot do both. An archive has one open
// request: a second one gives it. Errors: NotFound; Refused by a legal hold, or if it is being made or deleted.
func (c *Custody) RequestDeletion(ctx context.Context, id job.ID, by, note string) (api.ArchiveDeletion, error) {
	if _, err := c.o.Catalog.Archive(ctx, string(id)); err != nil {
		return api.ArchiveDeletion{}, absent("delete", id, err)
	}
	if by == "" || note == "" {
		return api.ArchiveDeletion{}, job.Errorf(job.Invalid, "delete", id,
			"note and a person are needed: why, and who")
	}
	d, err := c.usable(ctx, id)
	if errors.Is(err, catalog.ErrNotFound) {
		d, err = c.request(ctx, id, by, note)
		if err == nil {
			err = c.audit(ctx, eventRequest, by, string(id)+" "+d.ID, note)
		}
	}
	if err != nil {
		return api.ArchiveDeletion{}, refusalOrKind("delete", id, err)
	}
	return c.goOn(ctx, d, note)
}

// RequestEarly is [Custody.RequestDeletion] for a person who may not delete: it is refused where no other person would
// have to approve it, since the retention time has ended.
func (c *Custody) RequestEarly(ctx context.Context, id job.ID, by, note string) (api.ArchiveDeletion, error) {
	at, err := c.ended()
	if err != nil {
		return api.ArchiveDeletion{}, err
	}
	ended, err := c.o.Catalog.Deletable(ctx, string(id), at)
	switch {
	case errors.Is(err, catalog.ErrNotFound):
		return api.ArchiveDeletion{}, absent("delete", id, err)
	case err != nil:
		return api.ArchiveDeletion{}, refusal("delete", id, err)
	case ended:
		return api.ArchiveDeletion{}, job.Errorf(job.Refused, "delete", id,
			"its retention time has ended: the server deletes it, or an admin does")
	}
	return c.RequestDeletion(ctx, id, by, note)
}

// request enters a request.
func (c *Custody) request(ctx context.Context, id job.ID, by, note string) (catalog.Deletion, error) {
	at, err := c.ended()
	if err != nil {
		return catalog.Deletion{}, err
	}
	return c.o.Catalog.RequestDeletion(ctx, catalog.Deletion{
		ID: "del-" + strings.ToLower(rand.Text()), Job: string(id), RequestedBy: by, Reason: note, Requested: at,
	})
}

// usable gives the open request to delete an archive, and refuses one that waits for a second person although the
// retention time has ended meanwhile: it needs none.
func (c *Custody) usable(ctx context.Context, id job.ID) (catalog.Deletion, error) {
	d, err := c.openDeletion(ctx, id)
	if err != nil || d.State != catalog.Requested {
		return d, err
	}
	at, err := c.ended()
	if err != nil {
		return d, err
	}
	ended, err := c.o.Catalog.Deletable(ctx, string(id), at)
	if err != nil || !ended {
		return d, err
	}
	if _, err := c.o.Catalog.DecideDeletion(ctx, d.ID, byRetention, false, at); err != nil {
		return d, err
	}
	return d, catalog.ErrNotFound
}

// openDeletion gives the open request to delete an archive; [catalog.ErrNotFound]: there is none.
func (c *Custody) openDeletion(ctx context.Context, id job.ID) (catalog.Deletion, error) {
	all, err := c.o.Catalog.DeletionsOf(ctx, string(id))
	if err != nil {
		return catalog.Deletion{}, err
	}
	i := slices.IndexFunc(all, func(d catalog.Deletion) bool {
		return d.State == catalog.Requested || d.State == catalog.Approved || d.State == catalog.Executing
	})
	if i < 0 {
		return catalog.Deletion{}, fmt.Errorf("request to delete %s: %w", id, catalog.ErrNotFound)
	}
	return all[i], nil
}

// DecideDeletion approves or refuses a request. Only another person than the one who requested it can approve it; both
// can refuse it. An approved archive is deleted. Errors: NotFound; Refused.
func (c *Custody) DecideDeletion(
	ctx context.Context, request, by string, approve bool, note string,
) (api.ArchiveDeletion, error) {
	if by == "" {
		return api.ArchiveDeletion{}, job.Errorf(job.Invalid, "decide", "", "a person is needed: who decides")
	}
	d, err := c.o.Catalog.DecideDeletion(ctx, request, by, approve, c.now())
	if err != nil {
		return api.ArchiveDeletion{}, refusal("decide", "", err)
	}
	words := map[bool]string{true: "approved", false: "refused"}
	if err := c.audit(ctx, eventDecide, by, d.Job+" "+d.ID+" "+words[approve], note); err != nil {
		return api.ArchiveDeletion{}, err
	}
	return c.goOn(ctx, d, note)
}

// Deletions lists requests in a state, or all (empty), the oldest first.
func (c *Custody) Deletions(ctx context.Context, state string, limit int) ([]api.ArchiveDeletion, error) {
	all, err := c.o.Catalog.Deletions(ctx, catalog.DeletionState(state), limit)
	views := make([]api.ArchiveDeletion, 0, len(all))
	for _, d := range all {
		views = append(views, viewDeletion(d))
	}
	return views, err
}

// goOn executes a request if it is approved, and gives it as it is then.
func (c *Custody) goOn(ctx context.Context, d catalog.Deletion, note string) (api.ArchiveDeletion, error) {
	if d.State == catalog.Approved || d.State == catalog.Executing {
		if err := c.execute(ctx, d, note); err != nil {
			return api.ArchiveDeletion{}, refusalOrKind("delete", job.ID(d.Job), err)
		}
	}
	d, err := c.o.Catalog.Deletion(ctx, d.ID)
	return viewDeletion(d), err
}

// execute takes the event delete for an approved request. The commit has the message that deletes the copies. Of a job
// whose record was removed the copies are deleted here.
func (c *Custody) execute(ctx context.Context, d catalog.Deletion, note string) error {
	reason := d.Reason
	if note != "" && note != d.Reason {
		reason += "; approved: " + note
	}
	j, err := c.engine.Store().Get(ctx, job.ID(d.Job))
	switch {
	case job.KindOf(err) == job.NotFound, err == nil && j.State == Deleted:
		_, err = c.o.Copies.Delete(ctx, d.ID)
		return err
	case err != nil:
		return err
	}
	_, err = c.engine.Do(ctx, operator.Act{
		Job: j.ID, Event: Delete, By: lifecycle.Operator, Note: reason, Confirm: true,
		Actor: cmp.Or(d.DecidedBy, d.RequestedBy, lifecycle.Operator.String()),
	})
	return err
}

// Allow refuses to delete an archive that a legal hold covers, or whose retention time has not ended, unless two
// persons agreed to the deletion.
func (c *Custody) Allow(ctx context.Context, j *job.Job, act *operator.Act) (job.Require, error) {
	if act.Event != Delete {
		return job.Require{}, nil
	}
	at, err := c.ended()
	if err != nil {
		return job.Require{}, err
	}
	d, err := c.openDeletion(ctx, j.ID)
	if err == nil && d.State == catalog.Executing {
		return job.Require{}, nil
	}
	approved := err == nil && d.State == catalog.Approved && d.Kind == catalog.Early
	ended, err := c.o.Catalog.Deletable(ctx, string(j.ID), at)
	switch {
	case errors.Is(err, catalog.ErrNotFound): // its source was never read
		return job.Require{}, nil
	case err != nil:
		return job.Require{}, refusal("delete", j.ID, err)
	case ended, approved:
		return job.Require{}, nil
	}
	return job.Require{}, job.Errorf(job.Refused, "delete", j.ID, "its retention time has not ended: request it with "+
		"`stagepost archive delete %s --note WHY`, and another person approves it", j.ID)
}

// Accompany makes an approved request irrevocable before the event delete is committed: no legal hold can come between
// the two.
func (c *Custody) Accompany(ctx context.Context, j *job.Job, act *operator.Act, _ *job.Change) error {
	if act.Event != Delete {
		return nil
	}
	err := c.begin(ctx, j.ID, act.Actor, act.Note)
	if errors.Is(err, catalog.ErrNotFound) {
		return nil
	}
	return refusalOrKind("delete", j.ID, err)
}

// begin begins the open request to delete an archive; if there is none it makes one, which only succeeds if the
// retention time has ended.
func (c *Custody) begin(ctx context.Context, id job.ID, by, note string) error {
	d, err := c.usable(ctx, id)
	if errors.Is(err, catalog.ErrNotFound) {
		d, err = c.request(ctx, id, cmp.Or(by, byRetention), note)
	}
	if err != nil {
		return err
	}
	at, err := c.ended()
	if err != nil {
		return err
	}
	_, err = c.o.Catalog.BeginDeletion(ctx, d.ID, at)
	return err
}

// Announce sends the message that deletes the copies, with the commit of the event delete.
func (c *Custody) Announce(j *job.Job, to *job.Change) []job.Message {
	if to.To.State != Deleted || j.State == Deleted {
		return nil
	}
	return []job.Message{{Key: string(j.ID) + "/" + deleteTopic, Job: j.ID, Topic: deleteTopic}}
}

// deliverDeletion deletes the copies of an archive whose job is deleted.
func (c *Custody) deliverDeletion(ctx context.Context, m job.Message) error {
	d, err := c.openDeletion(ctx, m.Job)
	if errors.Is(err, catalog.ErrNotFound) { // it has no copies, or they are deleted
		return nil
	}
	if err != nil {
		return err
	}
	_, err = c.o.Copies.Delete(ctx, d.ID)
	return err
}

// Expire deletes the archives whose retention time has ended, and continues deletions that were interrupted. A host
// calls it now and then. Its errors are those of single archives; the others are deleted.
func (c *Custody) Expire(ctx context.Context) error {
	at, err := c.ended()
	if err != nil {
		return err
	}
	due, err := c.o.Catalog.Outlived(ctx, at, 1000)
	if err != nil {
		return err
	}
	waiting, err := c.o.Catalog.Deletions(ctx, catalog.Requested, 1000)
	if err != nil {
		return err
	}
	for _, d := range waiting { // the retention time may have ended since
		_, err := c.usable(ctx, job.ID(d.Job))
		if errors.Is(err, catalog.ErrNotFound) {
			due = append(due, d.Job)
		}
	}
	var errs []error
	for _, id := range due {
		_, err := c.request(ctx, job.ID(id), byRetention, "its retention time has ended")
		errs = append(errs, err)
	}
	return errors.Join(append(errs, c.executeAll(ctx), c.o.Copies.PassRemovals(ctx))...)
}

// executeAll executes the requests that are approved, and continues those that are being executed.
func (c *Custody) executeAll(ctx context.Context) error {
	var errs []error
	for _, state := range []catalog.DeletionState{catalog.Approved, catalog.Executing} {
		all, err := c.o.Catalog.Deletions(ctx, state, 1000)
		errs = append(errs, err)
		for _, d := range all {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := c.execute(ctx, d, ""); err != nil {
				errs = append(errs, fmt.Errorf("archive %s: %w", d.Job, err))
			}
		}
	}
	return errors.Join(errs...)
}

func viewDeletion(d catalog.Deletion) api.ArchiveDeletion {
	v := api.ArchiveDeletion{
		Request: d.ID, Job: job.ID(d.Job), Kind: string(d.Kind), State: string(d.State), Reason: d.Reason,
		RequestedBy: d.RequestedBy, Requested: d.Requested, DecidedBy: d.DecidedBy, Decided: d.Decided, Ended: d.Ended,
	}
	if d.State == catalog.Requested {
		v.Remedy = "another person than " + d.RequestedBy + " approves it: stagepost archive approve " + d.ID
	}
	return v
}
