package signin

import (
	"cmp"
	"embed"
	"errors"
	"io/fs"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/account"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/openapi"
	"github.com/stagepost/stagepost/server/problem"
	"github.com/stagepost/stagepost/server/token"
)

//go:embed pages
var pages embed.FS

var templates = server.Templates(pages)

const (
	oidcPath = server.SignInPath + "/oidc"
	// CallbackPath is where a provider of OpenID Connect returns browsers.
	CallbackPath = oidcPath + "/callback"
	firstPath    = server.SignInPath + "/first/"
	noReason     = "people sign in and out"
	policy       = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; " +
		"frame-ancestors 'none'"
	mostForm = 16 << 10 // bytes
)

// Part gives the routes of sign-in. A nil app is enough to list them; they then refuse every request.
func Part(sv *server.Server, app *SignIn) server.Part {
	s := &routes{sv, app}
	html := openapi.IO{Media: openapi.HTML, Also: moved}
	next := []openapi.Parameter{{Name: "next", Doc: "The path to open after the sign-in."}}
	all := []server.Route{
		{Method: http.MethodGet, Pattern: server.SignInPath, Who: server.Anyone,
			Doc: "The page to sign in: next, the path to open afterwards.", Handle: s.page,
			IO: openapi.IO{Media: openapi.HTML, Query: next}},
		{Method: http.MethodPost, Pattern: server.SignInPath, Who: server.Anyone,
			Doc: "Begins a session by a form: name and password, or token; next.", Handle: s.signIn, NoReason: noReason,
			IO: html},
		{Method: http.MethodPost, Pattern: server.SignOutPath, Who: server.Anyone,
			Doc: "Ends the session of the browser.", Handle: s.signOut, NoReason: noReason, IO: html},
		{Method: http.MethodGet, Pattern: oidcPath, Who: server.Anyone,
			Doc: "Sends the browser to the provider of OpenID Connect: next.", Handle: s.toProvider,
			IO: openapi.IO{Media: openapi.HTML, Also: moved, Query: next}},
		{Method: http.MethodGet, Pattern: CallbackPath, Who: server.Anyone,
			Doc: "Where the provider returns the browser: code, state, iss, or error.", Handle: s.callback,
			IO: openapi.IO{Media: openapi.HTML, Also: moved, Query: []openapi.Parameter{
				{Name: "code", Doc: "The code to exchange for the ID token."},
				{Name: "error", Doc: "Why the provider refuses."}, {Name: "iss", Doc: "The provider (RFC 9207)."},
				{Name: "state", Doc: "The state of the request."}}}},
		{Method: http.MethodGet, Pattern: firstPath + "{token}", Who: server.Anyone,
			Doc:    "The page at which the first admin makes an account, by the link that the server printed.",
			Handle: s.firstPage, IO: html},
		{Method: http.MethodPost, Pattern: firstPath + "{token}", Who: server.Anyone,
			Doc: "Makes the first admin by a form: name and password.", Handle: s.makeFirst, NoReason: noReason,
			IO: html},
		{Method: http.MethodGet, Pattern: "/api/v1/session", Who: server.Anyone,
			Doc: "Who sends the request: name, role, and how it is authenticated.", Handle: s.session,
			IO: openapi.IO{Out: api.Session{}}},
		{Method: http.MethodGet, Pattern: "/api/v1/session/tokens", Who: server.Own, Grouped: true,
			Doc: "The tokens of the sender, and when each was used last.", Handle: s.ownTokens,
			IO: openapi.IO{Out: api.Tokens{}}},
		{Method: http.MethodGet, Pattern: "/api/v1/admin/tokens", Who: server.Admin,
			Doc: "The tokens that may use the API, and when each was used last.", Handle: s.tokens,
			IO: openapi.IO{Out: api.Tokens{}}},
		{Method: http.MethodDelete, Pattern: "/api/v1/session/tokens/{hash}", Who: server.Own, Grouped: true,
			Doc: "Revokes a token of the sender, named by all digits of its hash: note, actor.", Handle: s.revokeOwn,
			IO: openapi.IO{Out: api.Tokens{}, Query: openapi.Single("note", "actor")}},
		{Method: http.MethodDelete, Pattern: "/api/v1/admin/tokens/{hash}", Who: server.Admin,
			Doc: "Revokes a token, named by all digits of its hash: note, actor.", Handle: s.revokeAny,
			IO: openapi.IO{Out: api.Tokens{}, Query: openapi.Single("note", "actor")}},
		{Method: http.MethodGet, Pattern: "/api/v1/admin/sessions", Who: server.Admin,
			Doc: "The sessions of browsers, the latest first.", Handle: s.listed, IO: openapi.IO{Out: api.Sessions{}}},
		{Method: http.MethodDelete, Pattern: "/api/v1/admin/sessions/{key}", Who: server.Admin,
			Doc: "Ends a session: note, actor.", Handle: s.revoke,
			IO: openapi.IO{Out: api.Sessions{}, Query: openapi.Single("note", "actor")}},
	}
	for i := range all {
		all[i].Handle = s.guarded(all[i].Handle)
	}
	files, _ := fs.Sub(pages, ".") // a valid name
	return server.Part{Routes: all, Assets: files}
}

// guarded refuses requests where sign-in by a browser is not set up.
func (s *routes) guarded(handle func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter,
	*http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if s.SignIn == nil {
			return problem.Absent("sign-in", "this server has no sign-in", "settings tokens, users or oidc.issuer")
		}
		return handle(w, r)
	}
}

// view is what the page of sign-in shows.
type view struct {
	Next, Action, Wrong, Shown string
	Name                       string // what was typed
	Password, Token, First     bool
	OIDC, OIDCPath             string
}

func (s *routes) show(w http.ResponseWriter, r *http.Request, status int, v view) error {
	v.Next, v.OIDCPath = local(v.Next), oidcPath
	if v.Action == "" {
		v.Action, v.Password, v.Token = server.SignInPath, s.o.Users != nil, s.o.Tokens != nil
		if s.o.OIDC != nil {
			v.OIDC = s.o.OIDC.Title
		}
	}
	if who, ok := server.Who(r.Context()); ok {
		v.Shown = who.Shown()
	}
	return server.ReplyPageUnder(w, status, templates, "signin.html", v, policy)
}

func (s *routes) page(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	next := p.Text("next")
	if err := p.Err(); err != nil {
		return err
	}
	v := view{Next: next}
	if s.Identities != nil {
		if _, err := s.Identities.Identify(r); err != nil && !errors.Is(err, identity.ErrNone) {
			v.Wrong = err.Error() // why a browser with a credential was sent here
		}
	}
	return s.show(w, r, http.StatusOK, v)
}

// form reads the form of a page.
func form(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/x-www-form-urlencoded" {
		return job.Errorf(job.Invalid, "sign-in", "", "the body must be a form (application/x-www-form-urlencoded)")
	}
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	if err := r.ParseForm(); err != nil {
		return job.Errorf(job.Invalid, "sign-in", "", "the form: %w", err)
	}
	return nil
}

func (s *routes) signIn(w http.ResponseWriter, r *http.Request) error {
	if err := form(w, r); err != nil {
		return err
	}
	next, name, how := r.PostForm.Get("next"), r.PostForm.Get("name"), byPassword
	if r.PostForm.Has("token") {
		name, how = "", byToken
	}
	tried, wait, ok := s.attempt(cmp.Or(name, "token of "+s.Party(r)), s.Party(r))
	if !ok {
		err := tooMany(w, wait)
		if !server.ForPeople(r) {
			return err
		}
		return s.show(w, r, http.StatusTooManyRequests, view{Next: next, Name: name, Wrong: job.Reason(err) + " in " +
			w.Header().Get("Retry-After") + " s"})
	}
	one, err := s.known(r, how, name)
	if err != nil {
		if errors.Is(err, identity.ErrFault) {
			s.spare(tried)
			return job.Errorf(job.Unavailable, "sign-in", "", "%w", err)
		}
		if err := s.failed(r, name, how, err); err != nil {
			return err
		}
		return s.show(w, r, http.StatusForbidden, view{Next: next, Name: name, Wrong: err.Error()})
	}
	return s.enter(w, r, tried, one, next)
}

// known returns the session of the user or token of a form.
func (s *routes) known(r *http.Request, how, name string) (session, error) {
	if how == byPassword {
		if s.o.Users == nil {
			return session{}, errWrong
		}
		if s.Fault() != nil {
			return session{}, identity.ErrFault
		}
		u, ok := s.o.Users.Check(name, r.PostForm.Get("password"))
		if !ok {
			return session{}, errWrong
		}
		return session{Name: u.Name, Display: u.Display, Role: u.Role, Groups: u.Groups, How: how,
			Secret: u.Stamp()}, nil
	}
	if s.o.Tokens == nil {
		return session{}, token.ErrUnknown
	}
	who, err := s.o.Tokens.Find(r.PostForm.Get("token"))
	if err == nil && who.Role == identity.Worker {
		err = errors.New("the token is a worker's, who is no person")
	}
	return session{Name: who.Name, Role: who.Role, Groups: who.Groups, How: how, Token: &who.Key}, err
}

// moved declares the status of answers that send the browser on.
var moved = map[int]any{http.StatusSeeOther: nil}

// seeOther sends the browser on.
func seeOther(w http.ResponseWriter, to string) error {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// tooMany refuses an attempt.
func tooMany(w http.ResponseWriter, wait time.Duration) error {
	w.Header().Set("Retry-After", strconv.Itoa(max(1, int((wait+time.Second-1)/time.Second))))
	return problem.Refuse(http.StatusTooManyRequests, job.Unavailable,
		"there were too many attempts: wait and try again")
}

func (s *routes) signOut(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	if r.ContentLength > 0 {
		return job.Errorf(job.Invalid, "sign-out", "", "a sign-out has no body")
	}
	if who, ok := server.Who(r.Context()); ok && who.Way == identity.BySession {
		if err := s.note(r.Context(), "sign-out", who.Name, "session", ""); err != nil {
			return err
		}
		s.end(r)
	}
	http.SetCookie(w, cookie(s.secure(r), "", "", -1))
	return seeOther(w, server.SignInPath)
}

// unavailable is the answer of routes whose way to sign in the server does not have.
func unavailable(what, setting string) error {
	return problem.Absent("sign-in", "this server has no "+what, "setting "+setting)
}

func (s *routes) toProvider(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	next := local(p.Text("next"))
	if err := p.Err(); err != nil {
		return err
	}
	if s.o.OIDC == nil {
		return unavailable("provider of OpenID Connect", "oidc.issuer")
	}
	tried, wait, ok := s.attempt("", s.Party(r))
	if !ok {
		return tooMany(w, wait)
	}
	one := newPending(next, s.now())
	address, err := s.o.OIDC.begin(r.Context(), one)
	if err != nil {
		return s.show(w, r, http.StatusBadGateway, view{Next: next, Wrong: brief(err)})
	}
	s.spare(tried) // the callback counts
	s.keepPending(w, r, one)
	return seeOther(w, address)
}

func (s *routes) callback(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query() // parameters that a provider adds are ignored (RFC 6749, section 4.1.2)
	if len(q["state"]) != 1 || len(q["code"]) > 1 || len(q["iss"]) > 1 {
		return job.Errorf(job.Invalid, "sign-in", "", "state must be given once, code and iss at most once")
	}
	if s.o.OIDC == nil {
		return unavailable("provider of OpenID Connect", "oidc.issuer")
	}
	tried, wait, ok := s.attempt("", s.Party(r))
	if !ok {
		return tooMany(w, wait)
	}
	one := s.takePending(w, r, q.Get("state"))
	end, first, err := s.o.OIDC.returned(one, r.URL)
	switch {
	case err != nil:
		end = &outcome{wrong: brief(err), err: s.failed(r, "", byOIDC, err)}
	case first:
		s.settle(end, r, one, q)
	default:
		select {
		case <-end.done:
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
	if end.err == nil && end.secret == "" {
		return s.show(w, r, http.StatusForbidden, view{Next: one.Next, Wrong: end.wrong})
	}
	if end.err == nil || errors.Is(end.err, identity.ErrFault) {
		s.spare(tried)
	}
	if end.err != nil {
		return end.err
	}
	return s.entered(w, r, end.secret, one.Next)
}

func (s *routes) firstPage(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	if err := s.firstAllowed(w, r); err != nil {
		return err
	}
	return s.show(w, r, http.StatusOK, view{First: true, Password: true, Action: r.URL.Path})
}

// firstAllowed refuses what is not the link for the first admin.
func (s *routes) firstAllowed(w http.ResponseWriter, r *http.Request) error {
	tried, wait, ok := s.attempt("", s.Party(r))
	if !ok {
		return tooMany(w, wait)
	}
	if s.o.Users == nil || !s.invited(r.PathValue("token")) || s.hasAdmin() {
		return job.Errorf(job.NotFound, "sign-in", "", "the link is not valid, or no longer: a server without an "+
			"admin prints one at its start")
	}
	s.spare(tried)
	return nil
}

func (s *routes) makeFirst(w http.ResponseWriter, r *http.Request) error {
	if err := form(w, r); err != nil {
		return err
	}
	if err := s.firstAllowed(w, r); err != nil {
		return err
	}
	u := account.User{Name: r.PostForm.Get("name"), Role: identity.Admin}
	err := u.SetPassword(r.PostForm.Get("password"))
	if err == nil {
		err = s.o.Users.AddFirst(u)
	}
	if err != nil {
		return s.show(w, r, http.StatusBadRequest, view{First: true, Password: true, Action: r.URL.Path,
			Name: u.Name, Wrong: err.Error()})
	}
	s.mu.Lock()
	s.firstEnd = time.Time{}
	s.mu.Unlock()
	if err := s.note(r.Context(), "create-user", u.Name, "first admin", "role admin"); err != nil {
		return err
	}
	return s.enter(w, r, attempt{}, session{Name: u.Name, Role: u.Role, How: byPassword, Secret: u.Stamp()},
		r.PostForm.Get("next"))
}

func (s *routes) session(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	v := s.Visitor(r)
	return server.Reply(w, api.Session{Authenticated: v.Authenticated, SignedIn: v.SignedIn, Name: v.Name,
		Shown: v.Shown, Role: string(v.Role), Way: string(v.Way)})
}

func (s *routes) listed(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	return s.replySessions(w)
}

func (s *routes) replySessions(w http.ResponseWriter) error {
	all, err := s.list()
	if err != nil {
		return err
	}
	answer := api.Sessions{Sessions: []api.OpenSession{}}
	for k, one := range all {
		answer.Sessions = append(answer.Sessions, api.OpenSession{Key: k.String(), Name: one.Name,
			Role: string(one.Role), How: one.How, From: one.From, Begun: one.Begun, Used: one.used.UTC()})
	}
	slices.SortFunc(answer.Sessions, func(a, b api.OpenSession) int {
		return cmp.Or(b.Begun.Compare(a.Begun), cmp.Compare(a.Key, b.Key))
	})
	return server.Reply(w, answer)
}

func (s *routes) revoke(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	note, actor := p.Text("note"), p.Text("actor")
	if err := p.Err(); err != nil {
		return err
	}
	_, actor, err := server.ActorOf(r, "", actor)
	if err != nil {
		return err
	}
	k, err := keyFrom(r.PathValue("key"))
	if err != nil {
		return job.Errorf(job.Invalid, "sessions", "", "%w", err)
	}
	one, err := s.get(k)
	if err != nil {
		return job.Errorf(job.NotFound, "sessions", "", "there is no session %.8s", k)
	}
	if err := s.note(r.Context(), "end-session", actor, "session "+k.String()[:8]+" of "+one.Name, note); err != nil {
		return err
	}
	if err := s.remove(k); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.replySessions(w)
}
