package ingest

import (
	"context"
	"errors"
	"time"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
)

// changing is a set of profiles that can be another one later.
type changing interface {
	profile.Source
	Reload() (profile.Change, error)
	Watch(ctx context.Context, w profile.Watching, tell func(profile.Change, error))
	Status() profile.Status
}

// causeProfile is what jobs wait for whose profile was removed.
const causeProfile = "profile"

// watchProfiles follows the profile directory until ctx ends.
func (a *App) watchProfiles(ctx context.Context) {
	if live, ok := a.options.Profiles.(changing); ok {
		live.Watch(ctx, profile.Watching{Log: a.log},
			func(c profile.Change, err error) { a.reloaded(ctx, "stagepost", "the directory changed", c, err) })
	}
}

// ReloadProfiles reads the profile directory again. If it is broken everything stays as it was; the error, of kind
// Refused, names all mistakes.
func (a *App) ReloadProfiles(ctx context.Context, actor, note string) (profile.Change, error) {
	live, ok := a.options.Profiles.(changing)
	if !ok {
		return profile.Change{}, job.Errorf(job.Refused, "reload", "",
			"the profiles of this server are not read from a directory")
	}
	c, err := live.Reload()
	a.reloaded(ctx, actor, note, c, err)
	if err != nil {
		return c, &job.Error{Op: "reload", Kind: job.Refused, Err: err}
	}
	return c, nil
}

// ProfileStatus returns the status of the profiles; ok is false where they are not read from a directory.
func (a *App) ProfileStatus() (s profile.Status, ok bool) {
	if live, is := a.options.Profiles.(changing); is {
		return live.Status(), true
	}
	return s, false
}

// Profile gives a profile as it is now, or kind NotFound.
func (a *App) Profile(id string) (*profile.Profile, error) {
	p, ok := a.options.Profiles.Get(id)
	if !ok {
		return nil, job.Errorf(job.NotFound, "profile", "", "there is no profile %.100q", id)
	}
	return p, nil
}

// ProfileIDs lists the profiles, sorted.
func (a *App) ProfileIDs() []string { return a.options.Profiles.IDs() }

// reloaded reports to the log and the audit log what reading the directory changed, and wakes jobs that waited for a
// profile.
func (a *App) reloaded(ctx context.Context, actor, note string, c profile.Change, err error) {
	object := c.String()
	if err != nil {
		object = "refused: " + err.Error()
		var all profile.Mistakes
		if errors.As(err, &all) {
			for _, m := range all {
				a.log.Error("profile refused; the profiles stay as they were", "at", m.Error())
			}
		} else {
			a.log.Error("profiles refused; they stay as they were", "error", err)
		}
	} else {
		a.log.Info("profiles read", "change", c.String(), "by", actor)
	}
	if len(object) > record.MaxText {
		object = object[:record.MaxText]
	}
	if err := a.engine.Operator().Audit(ctx, operator.Entry{Actor: actor, Event: "profile-reload", Object: object,
		Note: note}); err != nil && ctx.Err() == nil {
		a.log.Error("audit", "event", "profile-reload", "error", err)
	}
	if err == nil && len(c.Added) > 0 {
		a.nudgeWaiting(ctx)
		select {
		case a.late <- struct{}{}: // a step that missed the profile may be about to wait
		default:
		}
	}
}

// latecomers wakes jobs that wait for a profile once more, a moment after profiles were added.
func (a *App) latecomers(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.late:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(a.pause()):
			a.nudgeWaiting(ctx)
		}
	}
}

// nudgeWaiting makes the jobs due that wait for their profile. Those whose profile is still gone wait again.
func (a *App) nudgeWaiting(ctx context.Context) {
	open := false
	q := job.Query{Kinds: []job.Kind{record.BatchKind, record.JobKind}, Causes: []string{causeProfile}, Ended: &open,
		Limit: 1000}
	for {
		page, err := a.engine.Store().List(ctx, q)
		for i := range page.Jobs {
			err = errors.Join(err, a.engine.Nudge(ctx, page.Jobs[i].ID, causeProfile))
		}
		if err != nil && ctx.Err() == nil {
			a.log.Error("jobs that wait for a profile", "error", err) // they try by themselves within a minute
		}
		if q.After = page.Next; err != nil || q.After == "" {
			return
		}
	}
}

// Reload reads the profile directory again, where there is one: the server calls it on SIGHUP.
func (a *App) Reload() error {
	if _, ok := a.options.Profiles.(changing); !ok {
		return nil
	}
	_, err := a.ReloadProfiles(context.Background(), "stagepost", "SIGHUP")
	return err
}
