package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/problem"
	"github.com/stagepost/stagepost/server/token"
)

type identityKey struct{}

// Who returns who sends a request. ok is false without authentication, and on routes for anyone if the request has no
// valid credential.
func Who(ctx context.Context) (who identity.Identity, ok bool) {
	who, ok = ctx.Value(identityKey{}).(identity.Identity)
	return who, ok
}

// OwnerOf returns the name of the sender of a request, which is the owner of its jobs; "" without authentication.
func OwnerOf(ctx context.Context) string {
	who, _ := Who(ctx)
	return who.Name
}

// TokenOf returns the hash of the API token of a request; "" for other ways of authentication and without it.
func TokenOf(ctx context.Context) string {
	if who, ok := Who(ctx); ok && who.Way == identity.ByToken {
		return who.Key.String()
	}
	return ""
}

// UserOf returns the owner to whose jobs a request is limited; "" if it is not limited.
func UserOf(ctx context.Context) string {
	if who, ok := Who(ctx); ok && who.Role == identity.Depositor {
		return who.Name
	}
	return ""
}

// IsUser reports whether a request comes from a depositor, who is no staff.
func IsUser(ctx context.Context) bool { return UserOf(ctx) != "" }

// admit decides whether a request may reach its route, and returns it with the identity of its sender. No other
// function does: the table has the role of each route, and a route without a rule is closed.
func (s *Server) admit(w http.ResponseWriter, route *Route, r *http.Request) (*http.Request, error) {
	if s.Identities == nil {
		return r, nil
	}
	if route.Who == Anyone {
		return s.admitAnyone(r)
	}
	if _, password, ok := r.BasicAuth(); ok && route.Basic && len(r.Header.Values("Authorization")) == 1 {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+password)
	}
	who, err := s.Identities.Identify(r)
	if err != nil {
		return nil, unidentified(w, route, err)
	}
	r = r.WithContext(context.WithValue(r.Context(), identityKey{}, who)) // also of what is refused: it is paced
	if !route.permits(&who) {
		return r, problem.Refuse(http.StatusForbidden, job.Refused, "%s %s is not for the role %s", route.Method,
			route.Pattern, identity.WriteScope(who.Role, who.Groups, ""))
	}
	if route.ofJob() && (who.Role == identity.Depositor || who.Groups != "") {
		if err := s.seen(r.Context(), JobID(r), &who); err != nil {
			return r, err
		}
	}
	if err := s.entitled(r, route, &who); err != nil {
		return r, err
	}
	return r, nil
}

// admitAnyone admits a request to a route for anyone, with its identity if it has one.
func (s *Server) admitAnyone(r *http.Request) (*http.Request, error) {
	if token.InURL(r.URL) {
		return nil, problem.Refuse(http.StatusBadRequest, job.Invalid, "%w", identity.ErrInURL)
	}
	if who, err := s.Identities.Identify(r); err == nil {
		r = r.WithContext(context.WithValue(r.Context(), identityKey{}, who))
	}
	return r, nil
}

// unidentified returns the answer to a request without an identity.
func unidentified(w http.ResponseWriter, route *Route, err error) error {
	switch {
	case errors.Is(err, identity.ErrInURL):
		return problem.Refuse(http.StatusBadRequest, job.Invalid, "%w", err)
	case errors.Is(err, identity.ErrFault):
		w.Header().Set("Retry-After", "5")
		return job.Errorf(job.Unavailable, "token", "", "%w", err)
	}
	challenge := `Bearer realm="stagepost"`
	if !errors.Is(err, identity.ErrNone) {
		challenge += `, error="invalid_token"` // RFC 6750, section 3.1
	}
	w.Header().Set("WWW-Authenticate", challenge)
	if route.Basic {
		w.Header().Add("WWW-Authenticate", `Basic realm="stagepost"`) // RFC 7617, section 2
	}
	return problem.Refuse(http.StatusUnauthorized, job.Refused, "%w", err)
}

// permits reports whether a role with its scope may use the route. Which jobs it may see is decided by
// [identity.Identity.Sees].
func (r *Route) permits(who *identity.Identity) bool {
	if !slices.Contains([]Role{Anyone, Person, Own, Shared, Operator, Worker, Admin}, r.Who) ||
		who.Groups != "" && !r.inGroups() {
		return false
	}
	switch who.Role {
	case identity.Depositor:
		return r.Who == Anyone || r.Who == Own || r.Who == Shared || r.Who == Person && r.ofJob()
	case identity.Operator:
		return slices.Contains([]Role{Anyone, Person, Own, Shared, Operator}, r.Who)
	case identity.Auditor:
		return r.Who == Anyone || r.Who != Worker && r.readsOnly()
	case identity.Worker:
		return r.Who == Anyone || r.Who == Worker
	case identity.Admin:
		return true
	}
	return false
}

// ofJob reports whether {id} of the route is a job.
func (r *Route) ofJob() bool {
	return strings.Contains(r.Pattern, "{id}") && (r.Who == Person || r.Grouped)
}

// inGroups reports whether the route is limited to the groups of identities that have some.
func (r *Route) inGroups() bool { return r.Who == Anyone || r.Who == Shared || r.ofJob() || r.Grouped }

// readsOnly reports whether the route changes nothing.
func (r *Route) readsOnly() bool { return r.Method == http.MethodGet || r.Reads }

// seen refuses a job that does not exist for an identity in the same words as one that does not exist.
func (s *Server) seen(ctx context.Context, id job.ID, who *identity.Identity) error {
	j, err := s.Store.Get(ctx, id)
	if kind := job.KindOf(err); err != nil && kind != job.NotFound && kind != job.Gone {
		return err
	}
	if none := job.Errorf(job.NotFound, "get", id, "there is no such job"); err != nil {
		return none
	} else if !who.Sees(j.Owner, j.Group) {
		return Foreign(none)
	}
	return nil
}

// OwnerFor returns the owner of a new job: for a depositor itself, for others the one that they name, by default
// themselves.
func OwnerFor(ctx context.Context, said string) string {
	return cmp.Or(UserOf(ctx), said, OwnerOf(ctx))
}

// withhold replaces the addresses in entries that are not for a depositor: all but those of its own acts.
func withhold(ctx context.Context, entries []job.Event) {
	name := UserOf(ctx)
	if name == "" {
		return
	}
	for i := range entries {
		if e := &entries[i]; e.Address != "" && (e.By != lifecycle.Owner || e.Actor != name) {
			e.Address = job.Withheld
		}
	}
}

// GroupsOf returns the groups to which the sender of a request is limited; none if every group is allowed.
func GroupsOf(ctx context.Context) []string {
	who, _ := Who(ctx)
	return who.Groups.List()
}

// CheckGroup refuses work in a group that is not among those of the sender.
func CheckGroup(ctx context.Context, group string) error {
	if who, ok := Who(ctx); ok && !who.Groups.Allow(group) {
		return problem.Refuse(http.StatusForbidden, job.Refused, "%s is limited to the groups %s, not %.100q", who.Name,
			who.Groups, group)
	}
	return nil
}

// limit limits a list to the jobs that exist for the sender of a request.
func limit(ctx context.Context, q *job.Query) error {
	who, ok := Who(ctx)
	if !ok {
		return nil
	}
	if who.Role == identity.Depositor {
		if q.Owner != "" && q.Owner != who.Name {
			return problem.Refuse(http.StatusForbidden, job.Refused, "a depositor sees its own jobs only")
		}
		q.Owner = who.Name
	}
	var err error
	q.Group, err = GroupFor(ctx, q.Group)
	return err
}

// GroupFor returns the group of a query: the one that it names, or the only one to which the sender of the request is
// limited. Errors: Refused if the sender may not name it; Invalid if the sender is limited to several and names none.
func GroupFor(ctx context.Context, named string) (string, error) {
	who, ok := Who(ctx)
	if !ok || who.Groups == "" {
		return named, nil
	}
	group := cmp.Or(named, who.Groups.Only())
	if group == "" {
		return "", job.Errorf(job.Invalid, "request", "", "group is missing: name one of %s", who.Groups)
	}
	return group, CheckGroup(ctx, group)
}

// ActorOf returns as whom a request acts, and the name for histories: that of its sender, whatever actor the request
// names; without authentication that actor. A depositor acts as owner.
func ActorOf(r *http.Request, as, actor string) (lifecycle.Actor, string, error) {
	if err := CheckName("actor", actor); err != nil {
		return 0, "", err
	}
	who, known := Who(r.Context())
	if known {
		actor = who.Name
	}
	depositor := known && who.Role == identity.Depositor
	switch as {
	case "operator":
		if depositor {
			return 0, "", problem.Refuse(http.StatusForbidden, job.Refused, "the role depositor acts as owner")
		}
		return lifecycle.Operator, actor, nil
	case "":
		if depositor {
			return lifecycle.Owner, actor, nil
		}
		return lifecycle.Operator, actor, nil
	case "owner":
		return lifecycle.Owner, actor, nil
	}
	return 0, "", job.Errorf(job.Invalid, "request", "", "as must be operator or owner, not %.40q", as)
}

// Admit decides whether the sender of a request has a role that a route for the given role admits, and gives the
// request with its identity. Pages for anyone that show more to a person use it.
func (s *Server) Admit(w http.ResponseWriter, r *http.Request, role Role) (*http.Request, error) {
	return s.admit(w, &Route{Method: r.Method, Pattern: r.URL.Path, Who: role}, r)
}
