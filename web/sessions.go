package web

import (
	"net/http"
	"net/url"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
)

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

// waysIn are the ways in which sessions begin, in words.
var waysIn = map[string]string{"password": "with a password", "token": "with a token",
	"oidc": "at the provider of identities"}

func (h *handlers) sessions(r *http.Request) (*Frame, error) {
	var sessions api.Sessions
	v := sessionsView{Ends: h.Permits(r, http.MethodDelete, allSessions+"/{key}")}
	err := h.Get(r, allSessions, &sessions)
	if job.KindOf(err) == job.NotFound {
		v.Absent = job.Reason(err)
		err = nil
	}
	for _, s := range sessions.Sessions {
		v.Sessions = append(v.Sessions, sessionRow{s, waysIn[s.How]})
	}
	return &Frame{Title: "Sessions", Body: v, Lead: "Browsers in which people are signed in, the latest first. End " +
		"the session of a browser that others may use: it is refused at once, and the person signs in again."}, err
}

func (h *handlers) endSession(r *http.Request, form *Form) (to, done string, err error) {
	key, note := form.Text("key"), form.Line("note")
	if err := form.Err(); err != nil {
		return "", "", err
	}
	path := With(allSessions+"/"+url.PathEscape(key), Given(url.Values{"note": {note}}))
	_, err = h.Ask(r, http.MethodDelete, path, nil)
	return "/sessions", "The session is ended", err
}
