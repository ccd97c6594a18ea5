package bulkhttp

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/bulk"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/problem"
)

// Bulk is implemented by *bulk.App.
type Bulk interface {
	Preview(ctx context.Context, r bulk.Request) (bulk.Preview, error)
	Start(ctx context.Context, r bulk.Request, group string) (job.Job, error)
	Result(ctx context.Context, id job.ID) (bulk.Result, error)
}

func (s *Handlers) bulkApp() (Bulk, error) {
	if s.Bulk == nil {
		return nil, problem.Absent("bulk", "this server does no bulks", "module bulk")
	}
	return s.Bulk, nil
}

// startBulk creates a bulk, or returns its preview if dry is true.
func (s *Handlers) startBulk(w http.ResponseWriter, r *http.Request) error {
	app, err := s.bulkApp()
	if err != nil {
		return err
	}
	p := server.Params(r)
	dry := p.Flag("dry")
	if err := p.Err(); err != nil {
		return err
	}
	b, err := server.Decode[api.Bulk](r, true)
	if err != nil {
		return err
	}
	by, actor, err := server.ActorOf(r, "", b.Actor)
	if err != nil {
		return err
	}
	b.Actor = cmp.Or(actor, by.String())
	if b.Key, err = server.KeyOf(r, b.Key, b); err != nil {
		return err
	}
	if b.Group, err = server.GroupFor(r.Context(), b.Group); err != nil {
		return err
	}
	if err := s.mayDelete(r.Context(), &b); err != nil {
		return err
	}
	server.ExtendDeadline(w)
	if dry != nil && *dry {
		preview, err := app.Preview(r.Context(), b)
		if err != nil {
			return err
		}
		return server.Reply(w, preview)
	}
	own := ""
	if len(server.GroupsOf(r.Context())) > 0 {
		own = b.Group
	}
	j, err := app.Start(r.Context(), b, own)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/api/v1/jobs/"+string(j.ID))
	return server.ReplyJob(w, r, server.Made(w, r), j.Version, s.View(j))
}

// mayDelete refuses a bulk whose event deletes jobs of others than the sender, who is no admin.
func (s *Handlers) mayDelete(ctx context.Context, b *api.Bulk) error {
	kinds := b.Kinds
	if len(kinds) == 0 {
		kinds = s.Engine.Kinds()
	}
	if !slices.ContainsFunc(kinds, func(k job.Kind) bool { return s.Deletes(k, b.Event) }) {
		return nil
	}
	return s.Entitle(ctx, server.Deletion, b.Owner)
}

// bulkResult returns the result of a bulk.
func (s *Handlers) bulkResult(w http.ResponseWriter, r *http.Request) error {
	app, err := s.bulkApp()
	if err != nil {
		return err
	}
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	result, err := app.Result(r.Context(), server.JobID(r))
	if err != nil {
		return err
	}
	return server.Reply(w, result)
}
