package access

import (
	"net/http"
	"net/url"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/web"
)

// The operations that list tokens: of all users, and of the sender.
const (
	allTokens = "/api/v1/admin/tokens"
	ownTokens = "/api/v1/session/tokens"
)

// tokensView is what the page about tokens shows.
type tokensView struct {
	Absent string // why there are none
	All    bool   // of all users, not of the reader alone
	Tokens []tokenRow
}

type tokenRow struct {
	api.Token
	Revocable bool // by the reader
}

func (h *handlers) tokens(r *http.Request) (*web.Frame, error) {
	v, path, lead := tokensView{}, ownTokens, "Your tokens for the API"
	if h.Permits(r, http.MethodGet, allTokens) {
		v.All, path, lead = true, allTokens, "The tokens for the API"
	}
	var tokens api.Tokens
	err := h.Get(r, path, &tokens)
	if job.KindOf(err) == job.NotFound {
		v.Absent = job.Reason(err)
		err = nil
	}
	all, own := h.Permits(r, http.MethodDelete, allTokens+"/{hash}"), ""
	if who, ok := server.Who(r.Context()); ok && h.Permits(r, http.MethodDelete, ownTokens+"/{hash}") {
		own = who.Name
	}
	for _, t := range tokens.Tokens {
		v.Tokens = append(v.Tokens, tokenRow{t, all || t.Owner == own && own != ""})
	}
	return &web.Frame{Title: "Tokens", Body: v, Lead: lead + ", without their texts, and when each was used last. " +
		"Revoke a token that is not used any more, or that others may know: it is refused at once."}, err
}

func (h *handlers) revokeToken(r *http.Request, form *web.Form) (to, done string, err error) {
	hash, note := form.Text("hash"), form.Line("note")
	if err := form.Err(); err != nil {
		return "", "", err
	}
	path := ownTokens
	if h.Permits(r, http.MethodDelete, allTokens+"/{hash}") {
		path = allTokens
	}
	_, err = h.Ask(r, http.MethodDelete, noted(path, hash, note), nil)
	return "/tokens", "The token is revoked", err
}

// noted is the path of an item of a list, with a note about what is done to it.
func noted(list, item, note string) string {
	return web.With(list+"/"+url.PathEscape(item), web.Given(url.Values{"note": {note}}))
}

// allSessions is the operation that lists the sessions of browsers.
const allSessions = "/api/v1/admin/sessions"

// sessionsView is what the page about sessions shows.
type sessionsView struct {
	Absent   string // why there are none
	Ends     bool   // the reader may end them
	Sessions []sessionRow
}

type sessionRow struct {
	api.OpenSession
	Way string // how it began, in words
}

// beginnings are how sessions begin, in words.
var beginnings = map[string]string{"password": "with a password", "token": "with a token",
	"oidc": "at the provider of identities"}

func (h *handlers) sessions(r *http.Request) (*web.Frame, error) {
	var sessions api.Sessions
	v := sessionsView{Ends: h.Permits(r, http.MethodDelete, allSessions+"/{key}")}
	err := h.Get(r, allSessions, &sessions)
	if job.KindOf(err) == job.NotFound {
		v.Absent = job.Reason(err)
		err = nil
	}
	for _, s := range sessions.Sessions {
		v.Sessions = append(v.Sessions, sessionRow{s, beginnings[s.How]})
	}
	return &web.Frame{Title: "Sessions", Body: v, Lead: "Browsers in which people are signed in, the latest first. " +
		"End the session of a browser that others may use: it is refused at once, and the person signs in again."}, err
}

func (h *handlers) endSession(r *http.Request, form *web.Form) (to, done string, err error) {
	key, note := form.Text("key"), form.Line("note")
	if err := form.Err(); err != nil {
		return "", "", err
	}
	_, err = h.Ask(r, http.MethodDelete, noted(allSessions, key, note), nil)
	return "/sessions", "The session is ended", err
}
