package server

import (
	"context"
	"html/template"
	"net/http"
	"slices"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
)

// Pages is what a part adds to the pages for people. Every field may be empty.
type Pages struct {
	// answers GET / of browsers; the first part that has one answers
	Home func(http.ResponseWriter, *http.Request) error
	// answers browsers with a page about an error that no page shows, such as a refusal before a handler is reached;
	// the first part that has one answers. An error means that nothing was written
	Fail func(http.ResponseWriter, *http.Request, error) error
	// entries of the navigation
	Links []Link
	// pages that act on all jobs of a query: they take the filters of the list of jobs as parameters
	OnList []Link
	// what kinds of jobs are called in plain words
	Kinds map[job.Kind]Named
	// causes for which a job waits until its owner acts
	OwnerCauses []string
	// sentences for depositors about why a job of a kind ("": of any) waits, by the codes of reasons; the others are
	// shown as they are
	Plain map[job.Kind]map[string]string
	// the path of the operation that lists the files of a job (api.JobFiles); empty: there is none
	Files func(*job.Job) string
	// what the application adds to the page about a job of the kind, for the sender of the request
	Details map[job.Kind]func(*http.Request, *api.Job) (Details, error)
}

// Details are what an application adds to the page about a job.
type Details struct {
	HTML     template.HTML
	Tasks    bool     // it shows the tasks, so the page does not
	Children bool     // it lists the jobs of a batch, so the page only counts them
	Styles   []string // addresses of style sheets that it needs
	Scripts  []string // the same of scripts
}

// Link is a page that people open by its name.
type Link struct {
	Section string // of the navigation, such as Work
	Title   string
	Path    string
	Who     Role // of the page's route
}

// Named is what jobs of a kind are called.
type Named struct {
	One, Many   string // such as letter, letters
	Application string // whose jobs they are, such as Post office
	Part        bool   // they are parts of jobs of another kind, whose pages show them
}

// Links lists the entries of the navigation that the sender of a request may open.
func (s *Server) Links(ctx context.Context) []Link {
	return s.linksOf(ctx, func(p *Pages) []Link { return p.Links })
}

// OnList lists the pages for all jobs of a query that the sender of a request may open, and whose forms it may send.
func (s *Server) OnList(ctx context.Context) []Link {
	return slices.DeleteFunc(s.linksOf(ctx, func(p *Pages) []Link { return p.OnList }), func(l Link) bool {
		form := s.routeOf(http.MethodPost, l.Path)
		return form != nil && !s.may(ctx, form)
	})
}

func (s *Server) linksOf(ctx context.Context, of func(*Pages) []Link) (all []Link) {
	for i := range s.parts {
		for _, l := range of(&s.parts[i].Pages) {
			if s.mayOpen(ctx, &l) {
				all = append(all, l)
			}
		}
	}
	return all
}

// MayUse reports whether the sender of a request has a role that a route for the given role admits.
func (s *Server) MayUse(ctx context.Context, role Role) bool {
	return s.may(ctx, &Route{Method: http.MethodGet, Who: role})
}

// may reports whether the sender of a request may use a route.
func (s *Server) may(ctx context.Context, r *Route) bool {
	who, known := Who(ctx)
	return s.Identities == nil || r.Who == Anyone || known && r.permits(&who)
}

// routeOf returns the route of a method and a pattern; nil: there is none.
func (s *Server) routeOf(method, pattern string) *Route {
	for i := range s.all {
		if r := &s.all[i]; r.Method == method && r.Pattern == pattern {
			return r
		}
	}
	return nil
}

// mayOpen reports whether the sender of a request may open the page of a link: by its route, if that has its path.
func (s *Server) mayOpen(ctx context.Context, l *Link) bool {
	if r := s.routeOf(http.MethodGet, l.Path); r != nil {
		return s.may(ctx, r)
	}
	return s.MayUse(ctx, l.Who)
}

// NameOf returns what jobs of a kind are called; of a kind without a name, its kind.
func (s *Server) NameOf(k job.Kind) Named {
	for i := range s.parts {
		if n, ok := s.parts[i].Pages.Kinds[k]; ok {
			return n
		}
	}
	return Named{One: string(k), Many: string(k)}
}

// OwnerCauses lists the causes for which jobs wait until their owners act.
func (s *Server) OwnerCauses() (all []string) {
	for i := range s.parts {
		all = append(all, s.parts[i].Pages.OwnerCauses...)
	}
	return all
}

// PlainOf returns the sentence for depositors about a reason why a job of a kind waits; "" if its code has none.
func (s *Server) PlainOf(k job.Kind, code string) string {
	for _, of := range []job.Kind{k, ""} {
		for i := range s.parts {
			if text := s.parts[i].Pages.Plain[of][code]; text != "" {
				return text
			}
		}
	}
	return ""
}

// FilesOf returns the path of the operation that lists the files of a job; empty: there is none.
func (s *Server) FilesOf(j *job.Job) string {
	for i := range s.parts {
		if files := s.parts[i].Pages.Files; files != nil {
			if path := files(j); path != "" {
				return path
			}
		}
	}
	return ""
}

// DetailsOf returns what an application adds to the page about a job; empty: nothing.
func (s *Server) DetailsOf(r *http.Request, j *api.Job) (Details, error) {
	for i := range s.parts {
		if details := s.parts[i].Pages.Details[j.Kind]; details != nil {
			return details(r, j)
		}
	}
	return Details{}, nil
}
