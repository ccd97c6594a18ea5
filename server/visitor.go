package server

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/stagepost/stagepost/server/identity"
)

// Paths of sign-in. Package signin has the routes.
const (
	SignInPath  = "/sign-in"  // GET: the page; POST: its form
	SignOutPath = "/sign-out" // POST, without a body
)

// Requests that a page sends by itself, without its reader, do not prolong the session of the browser.
const (
	RefreshHeader = "Stagepost-Refresh" // of the scripts of pages; any value
	// RefreshQuery is the parameter of a page that reloads itself without a script, and RefreshAgain its value then.
	RefreshQuery = "refresh"
	RefreshAgain = "again"
)

// Visitor is what a page shows of the sender of its request.
//
// Forms need no token against forged requests: a request that changes something and comes from a page of another origin
// is refused before its route, and the cookie of a session has SameSite=Lax.
type Visitor struct {
	Authenticated bool // the server authenticates; if not, all callers may do everything
	SignedIn      bool
	Name, Shown   string // the name in records, and the one to show
	Role          identity.Role
	Way           identity.Way
	SignIn        string // the address of the sign-in page, which returns to the page of the request; empty: none
	SignOut       string // the address to which a form posts; empty: the sender cannot sign out here
}

// Visitor returns who sent the request for a page, of any route, also of one for anyone.
func (s *Server) Visitor(r *http.Request) Visitor {
	who, ok := Who(r.Context())
	v := Visitor{Authenticated: s.Identities != nil, SignedIn: ok, Name: who.Name, Shown: who.Shown(), Role: who.Role,
		Way: who.Way}
	if s.SignIn && !ok {
		v.SignIn = signInAt(r)
	}
	if who.Way == identity.BySession {
		v.SignOut = SignOutPath
	}
	return v
}

// Permits reports whether the sender of a request may use a route, such as "POST /api/v1/jobs/{id}/{event}", so that
// pages show what the sender may do. Which jobs it may see is decided in the route.
func (s *Server) Permits(r *http.Request, method, pattern string) bool {
	route := s.routeOf(method, pattern)
	return route != nil && s.may(r.Context(), route)
}

// signInAt is the address of the sign-in page for a request that needs an identity.
func signInAt(r *http.Request) string { return SignInAt(r.URL.RequestURI()) }

// SignInAt is the address of the sign-in page, which opens a page of this server afterwards.
func SignInAt(next string) string { return SignInPath + "?next=" + url.QueryEscape(next) }

// Absolute returns the address of a path of this server as browsers use it, to be passed on.
func (s *Server) Absolute(r *http.Request, path string) string {
	if base, err := url.Parse(s.URL); err == nil && base.Host != "" {
		return base.JoinPath(path).String()
	}
	at := url.URL{Scheme: "http", Host: r.Host, Path: path}
	if s.TLS {
		at.Scheme = "https"
	}
	return at.String()
}

// toSignIn reports whether the answer to a request without an identity is the sign-in page: a browser requests a
// page.
func (s *Server) toSignIn(r *http.Request) bool {
	return s.SignIn && r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html") &&
		r.Header.Get("Authorization") == ""
}
