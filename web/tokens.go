package web

import (
	"net/http"
	"net/url"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
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

func (h *handlers) tokens(r *http.Request) (*Frame, error) {
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
	return &Frame{Title: "Tokens", Body: v, Lead: lead + ", without their texts, and when each was used last. Revoke " +
		"a token that is not used any more, or that others may know: it is refused at once."}, err
}

func (h *handlers) revokeToken(r *http.Request, form *Form) (to, done string, err error) {
	hash, note := form.Text("hash"), form.Line("note")
	if err := form.Err(); err != nil {
		return "", "", err
	}
	path := ownTokens
	if h.Permits(r, http.MethodDelete, allTokens+"/{hash}") {
		path = allTokens
	}
	_, err = h.Ask(r, http.MethodDelete, With(path+"/"+url.PathEscape(hash), Given(url.Values{"note": {note}})), nil)
	return "/tokens", "The token is revoked", err
}
