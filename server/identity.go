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
	"github.com/stagepost/stagepost/server/problem"
	"github.com/stagepost/stagepost/server/token"
)

// Tokens know who sends a request; *token.Tokens do.
type Tokens interface {
	// Check returns who has the token of a request, or an error of package token.
	Check(r *http.Request) (token.Identity, error)

	// Fault returns why no token is valid although there are some; nil otherwise.
	Fault() error

	// Valid lists the hashes of the tokens that are accepted now.
	Valid() []token.Hash
}

// may lists the roles of tokens for each role of a route. Which jobs a user may see is decided in admit.
var may = map[Role][]token.Role{
	Person:   {token.User, token.Operator, token.Admin},
	Own:      {token.User, token.Operator, token.Admin},
	Shared:   {token.User, token.Operator, token.Admin},
	Operator: {token.Operator, token.Admin},
	Worker:   {token.Worker, token.Admin},
	Admin:    {token.Admin},
}

type identityKey struct{}

// identityOf returns who sends the request of a context; ok is false without authentication and on routes for anyone.
func identityOf(ctx context.Context) (who token.Identity, ok bool) {
	who, ok = ctx.Value(identityKey{}).(token.Identity)
	return who, ok
}

// OwnerOf returns the owner of the token of a request, for handlers that are made outside and mounted in a route; ""
// without authentication.
func OwnerOf(ctx context.Context) string {
	who, _ := identityOf(ctx)
	return who.Owner
}

// TokenOf returns the hash of the token of a request; "" without authentication.
func TokenOf(ctx context.Context) string {
	if who, ok := identityOf(ctx); ok {
		return who.Token.String()
	}
	return ""
}

// boundTo returns the owner to whose jobs a request is limited; "" if it is not limited.
func UserOf(ctx context.Context) string {
	if who, ok := identityOf(ctx); ok && who.Role == token.User {
		return who.Owner
	}
	return ""
}

// IsUser reports whether a request comes from a token of the role user, who is no staff.
func IsUser(ctx context.Context) bool { return UserOf(ctx) != "" }

// admit decides whether a request may reach its route, and gives it with the identity of its sender. No other
// function does: the table has the role of each route, and a route without a rule for users is closed to them.
func (s *Server) admit(w http.ResponseWriter, route *Route, r *http.Request) (*http.Request, error) {
	if s.Tokens == nil {
		return r, nil
	}
	if route.Who == Anyone {
		if token.InURL(r.URL) {
			return nil, problem.Refuse(http.StatusBadRequest, job.Invalid, "%w", token.ErrInURL)
		}
		return r, nil
	}
	if _, password, ok := r.BasicAuth(); ok && route.Basic && len(r.Header.Values("Authorization")) == 1 {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+password)
	}
	who, err := s.Tokens.Check(r)
	if errors.Is(err, token.ErrInURL) {
		return nil, problem.Refuse(http.StatusBadRequest, job.Invalid, "%w", err)
	}
	if errors.Is(err, token.ErrFault) {
		w.Header().Set("Retry-After", "5")
		return nil, job.Errorf(job.Unavailable, "token", "", "%w", err)
	}
	if err != nil {
		challenge := `Bearer realm="stagepost"`
		if !errors.Is(err, token.ErrNone) {
			challenge += `, error="invalid_token"` // RFC 6750, section 3.1
		}
		w.Header().Set("WWW-Authenticate", challenge)
		if route.Basic {
			w.Header().Add("WWW-Authenticate", `Basic realm="stagepost"`) // RFC 7617, section 2
		}
		return nil, problem.Refuse(http.StatusUnauthorized, job.Refused, "%w", err)
	}
	if !slices.Contains(may[route.Who], who.Role) || who.Role == token.User && !route.forUsers() {
		return nil, problem.Refuse(http.StatusForbidden, job.Refused, "%s %s is not for the role %s", route.Method,
			route.Pattern, who.Role)
	}
	r = r.WithContext(context.WithValue(r.Context(), identityKey{}, who))
	if who.Role == token.User && route.Who == Person {
		if err := s.owned(r.Context(), JobID(r), who.Owner); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// forUsers reports whether users may use the route: for one job of their own, for lists and orders that are bound to
// their owner, and for what has no owner.
func (r *Route) forUsers() bool {
	return r.Who == Own || r.Who == Shared || r.Who == Person && strings.Contains(r.Pattern, "{id}")
}

// owned refuses a job of another owner in the same words as one that does not exist.
func (s *Server) owned(ctx context.Context, id job.ID, owner string) error {
	j, err := s.Store.Get(ctx, id)
	if kind := job.KindOf(err); err != nil && kind != job.NotFound && kind != job.Gone {
		return err
	}
	if err != nil || j.Owner != owner {
		return job.Errorf(job.NotFound, "get", id, "there is no such job")
	}
	return nil
}

// ownerOf returns the owner of a new job: for a user itself, for others the one that they give, by default themselves.
func OwnerFor(ctx context.Context, said string) string {
	return cmp.Or(UserOf(ctx), said, OwnerOf(ctx))
}

// identity returns who sends a request: the owner of the token, whatever actor the request has; without
// authentication that actor. A user acts as owner.
func ActorOf(r *http.Request, as, actor string) (lifecycle.Actor, string, error) {
	if err := CheckName("actor", actor); err != nil {
		return 0, "", err
	}
	who, known := identityOf(r.Context())
	if known {
		actor = who.Owner
	}
	user := known && who.Role == token.User
	switch as {
	case "operator":
		if user {
			return 0, "", problem.Refuse(http.StatusForbidden, job.Refused, "the role user acts as owner")
		}
		return lifecycle.Operator, actor, nil
	case "":
		if user {
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
