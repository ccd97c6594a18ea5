package ingest

import (
	"context"
	"errors"
	"slices"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/job"
)

// Permit limits what is done for the owner of a user token to the objects that it deposited, and to those of the profiles that name it among their
// updaters. An empty user has no limit.
func (a *App) Permit(user string) Permit {
	p := Permit{User: user}
	if user == "" {
		return p
	}
	for _, id := range a.options.Profiles.IDs() {
		if one, ok := a.options.Profiles.Get(id); ok && one.Updates(user) {
			p.Profiles = append(p.Profiles, one.ID)
		}
	}
	return p
}

// mayUpdate refuses a submission that names an object which the user may not update, in the words for an object that does not exist. Identifiers in the
// payload are checked by the job.
func (a *App) mayUpdate(ctx context.Context, user string, p *profile.Profile, s *Submission) error {
	err := a.inventory.Permitted(ctx, a.Permit(user), p.Owner, s.PrimaryID, s.LocalIDs)
	if errors.Is(err, inventory.ErrUnknown) {
		return job.Errorf(job.NotFound, "submit", "", "%w", err)
	}
	return err
}

// permitted is what a user sees of the profiles: those that it may submit under.
type permitted struct {
	profile.Source
	user string
}

func (p permitted) Get(id string) (*profile.Profile, bool) {
	one, ok := p.Source.Get(id)
	if !ok || p.user != "" && !one.Submits(p.user) {
		return nil, false
	}
	return one, true
}

func (p permitted) IDs() []string {
	return slices.DeleteFunc(slices.Clone(p.Source.IDs()), func(id string) bool { _, ok := p.Get(id); return !ok })
}
