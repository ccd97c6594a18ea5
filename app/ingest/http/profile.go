package ingesthttp

import (
	"context"
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/problem"
)

// Profiles are the ingest profiles; *ingest.App has them.
type Profiles interface {
	ProfileIDs() []string
	Profile(id string) (*profile.Profile, error)
	ProfileStatus() (s profile.Status, ok bool)
	ReloadProfiles(ctx context.Context, actor, note string) (profile.Change, error)
}

func (s *Handlers) profileSet() (Profiles, error) {
	if s.Options.Profiles == nil {
		return nil, problem.Absent("ingest", "this server has no ingest profiles", "module ingest")
	}
	return s.Options.Profiles, nil
}

// unlimited reports whether a request may see how the server is set up: it has no authentication, or its sender is no
// depositor and is limited to no groups.
func unlimited(ctx context.Context) bool {
	who, ok := server.Who(ctx)
	return !ok || who.Role != identity.Depositor && who.Groups == ""
}

// profiles lists them in short; one that goes while they are listed is left out.
func (s *Handlers) profiles(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	k, err := s.profileSet()
	if err != nil {
		return err
	}
	answer, inside := api.Profiles{Profiles: []api.Profile{}}, unlimited(r.Context())
	for _, id := range k.ProfileIDs() {
		p, err := k.Profile(id)
		if user := server.UserOf(r.Context()); err != nil || user != "" && !p.Submits(user) ||
			server.CheckGroup(r.Context(), p.Group()) != nil {
			continue
		}
		one := api.Profile{
			ID: p.ID, Description: p.Description, Owner: p.Owner, Collection: p.Collection, Storage: []string{},
			Webhooks: []string{},
		}
		if inside {
			one.Storage, one.File = p.Storage, p.File()
		}
		for i := range p.Webhooks {
			one.Webhooks = append(one.Webhooks, p.Webhooks[i].Name)
		}
		answer.Profiles = append(answer.Profiles, one)
	}
	if status, ok := k.ProfileStatus(); ok && inside {
		answer.Status = &status
	}
	return server.Reply(w, answer)
}

// profile shows every value of one with its origin.
func (s *Handlers) profile(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	k, err := s.profileSet()
	if err != nil {
		return err
	}
	p, err := k.Profile(r.PathValue("id"))
	if err != nil {
		return err
	}
	return server.Reply(w, api.ProfileValues{ID: p.ID, File: p.File(), Values: p.Effective()})
}

func (s *Handlers) profileSchema(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/schema+json")
	_, _ = w.Write(profile.Schema()) // who does not read on has gone
	return nil
}

func (s *Handlers) reloadProfiles(w http.ResponseWriter, r *http.Request) error {
	b, err := server.Body[api.ReloadProfiles](r, false)
	if err != nil {
		return err
	}
	_, actor, err := server.ActorOf(r, "", b.Actor)
	if err != nil {
		return err
	}
	k, err := s.profileSet()
	if err != nil {
		return err
	}
	if actor == "" {
		actor = "operator"
	}
	c, err := k.ReloadProfiles(r.Context(), actor, b.Note)
	if err != nil {
		return err
	}
	return server.Reply(w, c)
}

// profileHealth adds that something is wrong without keeping the server from its work. What it is may have paths and
// secrets, and is not for anyone.
func (s *Handlers) profileHealth(_ context.Context, h *api.Health) {
	if s.Options.Profiles == nil {
		return
	}
	status, ok := s.Options.Profiles.ProfileStatus()
	if !ok || status.Fault == "" {
		return
	}
	h.Warnings = append(h.Warnings, "the profiles are broken; those of before are in force (stagepost ingest profile "+
		"list shows the reason)")
}
