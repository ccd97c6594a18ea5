package ingesthttp

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/web"
)

// profilePages lists the pages about profiles.
func (s *Handlers) profilePages() []server.Route {
	return []server.Route{
		web.PageRoute("/profiles", server.Shared, "A page with the ingest profiles, for users those that they may use.",
			nil, s.pages.Show("profiles.html", s.profilesPage)),
		web.PageRoute("/profiles/{profile}", server.Operator, "A page about a profile: storage locations, checks and "+
			"every value with its origin, without secrets.", nil, s.pages.Show("profile.html", s.profilePage)),
		web.FormRoute("/profiles/reload", server.Operator, "Reads the profile directory again.",
			s.pages.Post(s.reloadForm)),
	}
}

// profilesView is what the list of profiles shows.
type profilesView struct {
	Rows    []profileRow
	Status  *api.ProfileStatus
	Faults  []string // of the directory, one mistake each
	Reloads bool     // the reader may read it again
}

type profileRow struct {
	api.Profile
	Path string // empty: the reader may not open it
}

func (s *Handlers) profilesPage(r *http.Request) (*web.Frame, error) {
	var all api.Profiles
	if err := s.pages.Get(r, "/api/v1/ingest/profiles", &all); err != nil {
		return nil, err
	}
	v := profilesView{Status: all.Status, Reloads: all.Status != nil && s.Permits(r, http.MethodPost,
		"/profiles/reload")}
	if all.Status != nil && all.Status.Fault != "" {
		v.Faults = strings.Split(all.Status.Fault, "\n")
	}
	operator := s.MayUse(r.Context(), server.Operator)
	for _, p := range all.Profiles {
		row := profileRow{Profile: p}
		if operator {
			row.Path = "/profiles/" + url.PathEscape(p.ID)
		}
		v.Rows = append(v.Rows, row)
	}
	return &web.Frame{Title: "Profiles", Body: v, Lead: "A profile states who may submit to a collection, what is " +
		"checked, and where objects are stored."}, nil
}

// profileView is what the page about a profile shows.
type profileView struct {
	api.ProfileValues
	Groups    []valueGroup // by the first word of their keys
	Lifecycle []server.Link
}

type valueGroup struct {
	Name   string
	Values []api.ProfileValue
}

func (s *Handlers) profilePage(r *http.Request) (*web.Frame, error) {
	id := r.PathValue("profile")
	var v profileView
	if err := s.pages.Get(r, "/api/v1/ingest/profiles/"+url.PathEscape(id), &v.ProfileValues); err != nil {
		return nil, err
	}
	for _, value := range v.Values {
		name, _, nested := strings.Cut(value.Key, ".")
		name, _, listed := strings.Cut(name, "[")
		if !nested && !listed {
			name = "general"
		}
		at := slices.IndexFunc(v.Groups, func(g valueGroup) bool { return g.Name == name })
		if at < 0 {
			at = len(v.Groups)
			v.Groups = append(v.Groups, valueGroup{Name: name})
		}
		v.Groups[at].Values = append(v.Groups[at].Values, value)
	}
	for _, kind := range []string{string(record.BatchKind), string(record.JobKind)} {
		v.Lifecycle = append(v.Lifecycle, server.Link{Title: kind, Path: "/lifecycles/" + url.PathEscape(kind)})
	}
	return &web.Frame{Title: "Profile " + v.ID, Up: server.Link{Title: "Profiles", Path: "/profiles"}, Body: v}, nil
}

// reloadForm reads the profile directory again.
func (s *Handlers) reloadForm(r *http.Request, form *web.Form) (to, done string, err error) {
	b := api.ReloadProfiles{Note: form.Line("note")}
	if err := form.Err(); err != nil {
		return "", "", err
	}
	var c api.ProfileChange
	if err := s.pages.Send(r, http.MethodPost, "/api/v1/ingest/profiles/reload", b, &c); err != nil {
		return "", "", err
	}
	return "/profiles", "Read again at " + time.Now().UTC().Format("15:04:05 UTC") + ": " + c.String(), nil
}
