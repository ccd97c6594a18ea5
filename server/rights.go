package server

import (
	"context"
	"net/http"
	"slices"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/problem"
)

// Right is what a route needs beside its role where it concerns the work of another person: the role admin.
// Operators and auditors work with records, not with the files of users, and delete nothing of others.
type Right string

// The rights.
const (
	Content  Right = "content"  // the route answers with bytes of files of users
	Deletion Right = "deletion" // the route deletes files or records of users
)

// deleteEvent is the event of every lifecycle by which a person deletes a job.
const deleteEvent lifecycle.Event = "delete"

// Deletes reports whether an event deletes jobs of a kind: it is named delete, or leads to a tombstone from another
// state than the first one. In the first state nothing was done yet, and an event withdraws the work.
func (s *Server) Deletes(k job.Kind, e lifecycle.Event) bool {
	if e == deleteEvent {
		return true
	}
	life := s.Engine.Life(k)
	if life == nil {
		return false
	}
	for _, stage := range life.Stages()[1:] {
		t, ok := life.Transition(stage.State, e)
		if ok && slices.ContainsFunc(t.Targets(), life.Tombstone) {
			return true
		}
	}
	return false
}

// Owns reports whether the sender of a request has both rights to the work of an owner: it is that owner, or an admin.
// With no owner (empty) it is an admin. Without authentication each sender has them.
func (s *Server) Owns(ctx context.Context, owner string) bool {
	who, known := Who(ctx)
	return s.Identities == nil || known && who.Owns(owner)
}

// Entitle refuses what needs a right to the work of an owner that the sender of a request lacks.
func (s *Server) Entitle(ctx context.Context, right Right, owner string) error {
	if right == "" || s.Owns(ctx, owner) {
		return nil
	}
	who, _ := Who(ctx)
	if right == Deletion {
		return problem.Refuse(http.StatusForbidden, job.Refused,
			"the role %s may not delete the work of others: ask an admin", who.Role)
	}
	return problem.Refuse(http.StatusForbidden, job.Refused,
		"the role %s may not read the files of others: their owner and admins may", who.Role)
}

// entitled is Entitle for the job of a request. A route with {event} needs the right of the event. A job that does not
// exist has no owner: some of its files may still be there.
func (s *Server) entitled(r *http.Request, route *Route, who *identity.Identity) error {
	event := r.PathValue("event")
	if route.Right == "" && event == "" || !route.ofJob() || who.Role == identity.Admin {
		return nil
	}
	j, err := s.Store.Get(r.Context(), JobID(r))
	switch kind := job.KindOf(err); {
	case kind == job.NotFound || kind == job.Gone:
		return s.Entitle(r.Context(), route.Right, "")
	case err != nil:
		return err
	case event != "" && s.Deletes(j.Kind, lifecycle.Event(event)):
		return s.Entitle(r.Context(), Deletion, j.Owner)
	}
	return s.Entitle(r.Context(), route.Right, j.Owner)
}

// PermitsFor is [Server.Permits] for a route about the work of an owner.
func (s *Server) PermitsFor(r *http.Request, method, pattern, owner string) bool {
	route := s.routeOf(method, pattern)
	return route != nil && s.may(r.Context(), route) && s.Entitle(r.Context(), route.Right, owner) == nil
}
