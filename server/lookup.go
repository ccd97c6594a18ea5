package server

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
)

// mostNamed is how many jobs a lookup returns: ten, and one more if there are more.
const mostNamed = 11

// idPart matches what can begin or end an id: with the prefix of its kind, or at least four characters of the end.
var idPart = regexp.MustCompile(`^([A-Za-z]+_[0-9A-Za-z]*|[0-9A-Za-z]{4,26})$`)

// lookup answers with the jobs that a name may mean.
func (s *Server) lookup(w http.ResponseWriter, r *http.Request) error {
	p := Params(r)
	name := strings.TrimSpace(p.Text("name"))
	if name == "" {
		p.Wrong("name is missing")
	}
	if err := p.Err(); err != nil {
		return err
	}
	all, err := s.named(r.Context(), name)
	if err != nil {
		return err
	}
	found := len(all)
	if who, ok := Who(r.Context()); ok {
		all = slices.DeleteFunc(all, func(j job.Job) bool { return !who.Sees(j.Owner, j.Group) })
	}
	if none := job.Errorf(job.NotFound, "lookup", "", "there is no job %s", name); len(all) == 0 && found > 0 {
		return Foreign(none)
	} else if len(all) == 0 {
		return none
	}
	all = all[:min(len(all), mostNamed)]
	for i := range all {
		all[i] = s.redact(all[i])
	}
	return Reply(w, api.Page{Jobs: all})
}

// named finds jobs by their id; else by their number; else by a part of the id or a name of an application.
func (s *Server) named(ctx context.Context, name string) ([]job.Job, error) {
	if j, err := s.Store.Get(ctx, job.ID(name)); err == nil {
		return []job.Job{j}, nil
	} else if job.KindOf(err) != job.NotFound {
		return nil, err
	}
	all, err := s.numbered(ctx, name)
	if len(all) > 0 || err != nil {
		return all, err
	}
	if idPart.MatchString(name) {
		part := strings.ToUpper(name)
		if kind, rest, known := strings.Cut(name, "_"); known {
			part = strings.ToLower(kind) + "_" + strings.ToUpper(rest)
		}
		if all, err = s.Store.Named(ctx, part, UserOf(ctx), mostNamed); err != nil {
			return nil, err
		}
	}
	for _, p := range s.parts {
		if p.Named == nil {
			continue
		}
		ids, err := p.Named(ctx, name)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			j, err := s.Store.Get(ctx, id)
			if err == nil && !slices.ContainsFunc(all, func(have job.Job) bool { return have.ID == id }) {
				all = append(all, j)
			} else if err != nil && job.KindOf(err) != job.NotFound { // it may have been purged
				return nil, err
			}
		}
	}
	return all, nil
}

// numbered finds jobs by NUMBER, KIND/NUMBER, or as pages call them: by what people call the kind, a space and the
// number. A number alone is that of the kinds that applications name, if there
// are such kinds: with those of other kinds, which no list shows, a mistyped number could mean another job.
func (s *Server) numbered(ctx context.Context, name string) (all []job.Job, err error) {
	var kinds []job.Kind
	for _, p := range s.parts {
		kinds = append(kinds, p.Numbers...)
	}
	known, digits := s.Engine.Kinds(), name
	if len(kinds) == 0 {
		kinds = known
	}
	if i := strings.LastIndexAny(name, "/ "); i >= 0 {
		kinds, digits = slices.DeleteFunc(slices.Clone(known), func(k job.Kind) bool {
			return name[:i] != string(k) && (name[i] == '/' || !strings.EqualFold(name[:i], s.NameOf(k).One))
		}), name[i+1:]
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case err != nil:
		return nil, nil // it is no number
	case n < 1:
		return nil, job.Errorf(job.Invalid, "lookup", "", "%d is not the number of a job: numbers begin with 1", n)
	}
	for _, kind := range kinds {
		j, err := s.Store.Numbered(ctx, kind, n)
		switch user := UserOf(ctx); {
		case job.KindOf(err) == job.NotFound:
		case err != nil:
			return nil, err
		case user == "" || user == j.Owner:
			all = append(all, j)
		}
	}
	return all, nil
}
