package server

import (
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/lifecycle/draw"
)

// Tables lists the engine's tables and then the others, each name once.
func (s *Server) Tables() []*lifecycle.Table {
	var all []*lifecycle.Table
	for _, k := range s.Engine.Kinds() {
		all = append(all, s.Engine.Life(k))
	}
	for _, t := range s.Lives {
		if !slices.ContainsFunc(all, func(a *lifecycle.Table) bool { return a.Name() == t.Name() }) {
			all = append(all, t)
		}
	}
	return all
}

// Life returns the table of a kind, also of one that the engine does not run. It returns nil if there is none.
func (s *Server) Life(k job.Kind) *lifecycle.Table {
	if t := s.Engine.Life(k); t != nil {
		return t
	}
	i := slices.IndexFunc(s.Lives, func(t *lifecycle.Table) bool { return t.Name() == string(k) })
	if i < 0 {
		return nil
	}
	return s.Lives[i]
}

func (s *Server) lifecycles(w http.ResponseWriter, r *http.Request) error {
	if err := Params(r).Err(); err != nil {
		return err
	}
	a := api.Lifecycles{Lifecycles: []api.Lifecycle{}}
	for _, t := range s.Tables() {
		l := api.Lifecycle{Name: t.Name(), Hash: t.Hash(), Events: t.Events(),
			Jobs: s.Engine.Life(job.Kind(t.Name())) != nil}
		for _, st := range t.Stages() {
			l.States = append(l.States, st.State)
		}
		a.Lifecycles = append(a.Lifecycles, l)
	}
	return Reply(w, a)
}

// lifecycle returns one table; the part after the last dot of the name may be a format.
func (s *Server) lifecycle(w http.ResponseWriter, r *http.Request) error {
	if err := Params(r).Err(); err != nil {
		return err
	}
	full := r.PathValue("name")
	names := []string{}
	for _, t := range s.Tables() {
		if t.Name() == full {
			return Reply(w, t)
		}
		names = append(names, t.Name())
		switch format, ok := strings.CutPrefix(full, t.Name()+"."); {
		case ok && format == "svg":
			return ReplySVG(w, draw.SVG(t, draw.View{}))
		case ok && format == "mmd":
			return ReplyText(w, draw.Mermaid(t, draw.View{}))
		case ok && format == "dot":
			return ReplyText(w, draw.DOT(t, draw.View{}))
		}
	}
	return job.Errorf(job.NotFound, "lifecycle", "",
		"there is no lifecycle %.100q (known: %s; the name may end in .svg, .mmd or .dot)",
		full, strings.Join(names, ", "))
}

// diagram draws the state of a job and its path, now or at an earlier time.
func (s *Server) diagram(w http.ResponseWriter, r *http.Request) error {
	p := Params(r)
	at := p.time("at")
	if err := p.Err(); err != nil {
		return err
	}
	j, err := s.Store.Get(r.Context(), JobID(r))
	if err != nil {
		return err
	}
	life := s.Life(j.Kind)
	if life == nil {
		return job.Errorf(job.Refused, "draw", j.ID, "this server does not know the kind %s", j.Kind)
	}
	history, err := s.Store.History(r.Context(), j.ID, 1, 10_000)
	if err != nil {
		return err
	}
	as, may := actsAs(r.Context()), s.mayCause(r.Context(), j.Kind, j.Owner)
	view := draw.View{Current: j.Position, By: as, May: func(e lifecycle.Event) bool { return may(e, as) }}
	for _, e := range history {
		if at.IsZero() || !e.At.After(at) {
			view.Path = append(view.Path, lifecycle.Taken{Event: e.Event, By: e.By})
		}
	}
	if !at.IsZero() {
		if view.Current, err = life.Replay(view.Path); err != nil {
			return job.Errorf(job.Refused, "draw", j.ID, "its history is of another lifecycle: %w", err)
		}
	}
	return ReplySVG(w, draw.SVG(life, view))
}

// ReplySVG answers with an SVG; it carries its style inside and nothing else is allowed to it.
func ReplySVG(w http.ResponseWriter, svg string) error {
	w.Header().Set("Content-Type", "image/svg+xml")
	w.Header().Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "+
			"frame-ancestors 'none'; sandbox")
	_, _ = io.WriteString(w, svg)
	return nil
}

func ReplyText(w http.ResponseWriter, text string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text)
	return nil
}
