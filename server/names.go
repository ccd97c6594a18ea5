package server

import (
	"context"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// exists refuses a hold that a slip of the pen keeps from holding anything: on a kind, a state or a job that there is not. Groups, owners and tags
// may come later.
func (s *Server) exists(ctx context.Context, scope job.Scope) error {
	var q job.Query
	if scope.Kind != "" {
		q.Kinds = []job.Kind{scope.Kind}
	}
	if scope.State != "" {
		q.States = []lifecycle.State{scope.State}
	}
	if err := s.CheckQuery(ctx, &q); err != nil || scope.Job == "" {
		return err
	}
	_, err := s.Store.Get(ctx, scope.Job)
	return err
}

// names refuses kinds, states and outcomes that neither a lifecycle of the engine nor a record of the store has: an empty list would be taken for
// an answer. Records outlive lifecycles.
func (s *Server) CheckQuery(ctx context.Context, q *job.Query) error {
	kinds, states := s.vocabulary()
	if within(q.Kinds, kinds) && within(q.States, states) && within(q.Outcomes, outcomes) {
		return nil
	}
	tallies, err := s.Store.Count(ctx)
	if err != nil {
		return err
	}
	for _, t := range tallies {
		kinds, states = append(kinds, t.Kind), append(states, t.State)
	}
	if err := OneOf("kind", q.Kinds, kinds); err != nil {
		return err
	}
	if err := OneOf("state", q.States, states); err != nil {
		return err
	}
	return OneOf("outcome", q.Outcomes, outcomes)
}

// outcomes are those that a query may name.
var outcomes = []lifecycle.Outcome{lifecycle.OK, lifecycle.Failed, lifecycle.TimedOut, lifecycle.Cancelled}

// vocabulary gives the kinds of the engine and the states of their lifecycles.
func (s *Server) vocabulary() (kinds []job.Kind, states []lifecycle.State) {
	kinds = s.Engine.Kinds()
	for _, k := range kinds {
		for _, stage := range s.Engine.Life(k).Stages() {
			states = append(states, stage.State)
		}
	}
	return kinds, states
}

func within[T comparable](words, known []T) bool {
	return !slices.ContainsFunc(words, func(w T) bool { return !slices.Contains(known, w) })
}

// OneOf refuses words that are not known, and names those that are.
func OneOf[T ~string](what string, words, known []T) error {
	for _, w := range words {
		if slices.Contains(known, w) {
			continue
		}
		for _, k := range known {
			if strings.EqualFold(string(k), string(w)) {
				return job.Errorf(job.Invalid, "query", "", "there is no %s %.40q (did you mean %s?)", what, w, k)
			}
		}
		all := make([]string, 0, len(known))
		for _, k := range known {
			all = append(all, string(k))
		}
		slices.Sort(all)
		return job.Errorf(job.Invalid, "query", "", "there is no %s %.40q (known: %s)", what, w, strings.Join(slices.Compact(all), ", "))
	}
	return nil
}
