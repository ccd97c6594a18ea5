package server

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/problem"
)

// Fixity is the fixity checks of the stored objects of one application. Its answers need not name the application.
type Fixity interface {
	// Fixity reads the state of all storage locations that have copies, and the known faults. No copy is read.
	Fixity(ctx context.Context) (api.Fixity, error)

	// FixityObjects lists up to q.Limit objects in the order of their names, those after the object q.After first.
	// q.Application is empty.
	FixityObjects(ctx context.Context, q api.FixityQuery) ([]api.FixityObject, error)

	// StartFixity requests that all copies in the given locations are checked now. A check that is in progress
	// continues. It returns when the request is on disk; the work is done in the background, also after a restart.
	StartFixity(ctx context.Context, locations []string) error
}

// checked gives the applications with fixity checks that a filter selects ("": all), in the order of their names.
func (s *Server) checked(application string) ([]string, error) {
	all := slices.Sorted(maps.Keys(s.Options.Fixity))
	if len(all) == 0 {
		return nil, problem.Absent("fixity", "this server has no stored objects", "no module has any")
	}
	if application == "" {
		return all, nil
	}
	if s.Options.Fixity[application] == nil {
		return nil, job.Errorf(job.Invalid, "fixity", "",
			"there is no application %.40q with stored objects (known: %s)", application, strings.Join(all, ", "))
	}
	return []string{application}, nil
}

// fixityState joins the states of applications.
func (s *Server) fixityState(ctx context.Context, applications []string) (api.Fixity, error) {
	all := api.Fixity{Locations: []api.FixityLocation{}, Faults: []api.FixityFault{}}
	for _, name := range applications {
		one, err := s.Options.Fixity[name].Fixity(ctx)
		if err != nil {
			return all, err
		}
		for i := range one.Locations {
			one.Locations[i].Application = name
		}
		for i := range one.Faults {
			one.Faults[i].Application = name
		}
		all.Locations = append(all.Locations, one.Locations...)
		all.Faults = append(all.Faults, one.Faults...)
		all.Count += one.Count
	}
	return all, nil
}

func (s *Server) fixity(w http.ResponseWriter, r *http.Request) error {
	p := Params(r)
	application := p.Text("application")
	if err := p.Err(); err != nil {
		return err
	}
	names, err := s.checked(application)
	if err != nil {
		return err
	}
	state, err := s.fixityState(r.Context(), names)
	if err != nil {
		return err
	}
	return Reply(w, state)
}

// checkFixity answers as fixity does, at once: the check runs in the background.
func (s *Server) checkFixity(w http.ResponseWriter, r *http.Request) error {
	f, err := Body[api.CheckFixity](r, false)
	if err != nil {
		return err
	}
	_, actor, err := ActorOf(r, "", f.Actor)
	if err != nil {
		return err
	}
	names, err := s.checked(f.Application)
	if err != nil {
		return err
	}
	state, err := s.fixityState(r.Context(), names)
	if err != nil {
		return err
	}
	where := map[string][]string{}
	for _, l := range state.Locations {
		if f.Location == "" || f.Location == l.Location {
			where[l.Application] = append(where[l.Application], l.Location)
		}
	}
	if f.Location != "" && len(where) == 0 {
		return job.Errorf(job.NotFound, "fixity", "", "nothing is stored in a location %.200q", f.Location)
	}
	object := strings.TrimSpace(f.Application + " " + f.Location)
	if err := s.Engine.Operator().Audit(r.Context(), operator.Entry{Actor: actor, Event: "fixity-run", Object: object,
		Note: f.Note}); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(where)) {
		if err := s.Options.Fixity[name].StartFixity(r.Context(), where[name]); err != nil {
			return err
		}
	}
	if state, err = s.fixityState(r.Context(), names); err != nil {
		return err
	}
	return ReplyAs(w, http.StatusAccepted, state)
}

// fixityObjects answers with a page. Its After is APPLICATION/OBJECT.
func (s *Server) fixityObjects(w http.ResponseWriter, r *http.Request) error {
	p := Params(r)
	q := api.FixityQuery{Application: p.Text("application"), Location: p.Text("location")}
	for name, value := range map[string]*bool{"damaged": &q.Damaged, "overdue": &q.Overdue} {
		if given := p.Flag(name); given != nil {
			*value = *given
		}
	}
	q.After, q.Limit = p.Page()
	if err := p.Err(); err != nil {
		return err
	}
	names, err := s.checked(q.Application)
	if err != nil {
		return err
	}
	q.Limit = cmp.Or(q.Limit, 100)
	from, after, _ := strings.Cut(q.After, "/")
	q.Application = ""
	page := api.FixityObjects{Objects: []api.FixityObject{}}
	for _, name := range names {
		ask := q
		if ask.After = ""; name == from {
			ask.After = after
		}
		if name < from {
			continue
		}
		ask.Limit = q.Limit + 1 - len(page.Objects) // one more shows whether there is a next page
		some, err := s.Options.Fixity[name].FixityObjects(r.Context(), ask)
		if err != nil {
			return err
		}
		for i := range some {
			some[i].Application = name
		}
		page.Objects = append(page.Objects, some...)
		if len(page.Objects) > q.Limit {
			page.Objects = page.Objects[:q.Limit]
			last := page.Objects[q.Limit-1]
			page.Next = last.Application + "/" + last.Object
			break
		}
	}
	return Reply(w, page)
}
