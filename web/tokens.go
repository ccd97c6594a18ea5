package web

import (
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
)

// allTokens is the operation that lists the tokens of all users.
const allTokens = "/api/v1/admin/tokens"

// tokensView is what the page about tokens shows.
type tokensView struct {
	Absent string // why there are none
	All    bool   // of all users, not of the reader alone
	Tokens []api.Token
}

func (h *handlers) tokens(r *http.Request) (*Frame, error) {
	v, path, lead := tokensView{}, "/api/v1/session/tokens", "Your tokens for the API"
	if h.Permits(r, http.MethodGet, allTokens) {
		v.All, path, lead = true, allTokens, "The tokens for the API"
	}
	var tokens api.Tokens
	err := h.Get(r, path, &tokens)
	if job.KindOf(err) == job.NotFound {
		v.Absent = job.Reason(err)
		err = nil
	}
	v.Tokens = tokens.Tokens
	return &Frame{Title: "Tokens", Body: v, Lead: lead + ", without their texts, and when each was used last. Have a " +
		"token revoked that is not used any more, or that others may know."}, err
}
