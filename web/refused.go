package web

import (
	"cmp"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/problem"
	"github.com/stagepost/stagepost/web/entered"
)

// refused is what the page about an error shows.
type refused struct {
	Detail, Next string
	Job          job.ID // that it is about; empty: none
	Link         server.Link
	Window       bool          // the link opens another window
	Sent         *entered.Form // nil: no text is lost
}

// refuse shows a browser what is wrong, what can be done about it, and a link.
func (p *Pages) refuse(w http.ResponseWriter, r *http.Request, err error) error {
	var sent url.Values
	switch problem.Of(err).Status { // no page of another origin sent the form: those are refused with 403
	case http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusRequestEntityTooLarge:
		sent = entered.Read(r)
	}
	return p.refuseForm(w, r, err, sent)
}

// refuseForm is refuse for a form, whose texts are shown.
func (p *Pages) refuseForm(w http.ResponseWriter, r *http.Request, err error, sent url.Values) error {
	of := problem.Of(err)
	problem.Retry(w.Header(), of.Status)
	title := strings.TrimSuffix(of.Title, ".")
	view := refused{Detail: of.Detail, Next: nextSteps[of.Kind], Job: of.Job,
		Link: server.Link{Title: "Go back", Path: p.before(r)}, Sent: entered.Of(r, of, sent)}
	unchanged := "Nothing was changed. "
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		unchanged = ""
	}
	switch of.Status {
	case http.StatusUnauthorized:
		title = "You are not signed in"
		view.Next = "This server has no page to sign in: send a token, as the command line does."
		if p.SignIn {
			view.Next = unchanged + cmp.Or(view.Sent.Advice(), "Sign in again, then send the form again.")
			view.Link = server.Link{Title: "Sign in", Path: server.SignInAt(view.Link.Path)}
			view.Window = view.Sent != nil
		}
	case http.StatusForbidden:
		title, view.Next = "It is not allowed", unchanged+"Ask those who run the server if you need it."
	case http.StatusTooManyRequests:
		view.Next = unchanged + "Try it again in " + w.Header().Get("Retry-After") + " s."
	}
	return p.Reply(w, r, of.Status, "refused.html", &Frame{Title: title, Body: view})
}

// nextSteps state what a person can do about a refusal.
var nextSteps = map[job.ErrorKind]string{
	job.Invalid:     "Correct what the sentence names, and send it again.",
	job.NotFound:    "Compare the address or the number with the one that you were given, or search for it.",
	job.Conflict:    "Open the page again: it shows the present state. Then decide again.",
	job.Refused:     "Open the page again: it shows what is possible now.",
	job.Stale:       "Open the page again: it shows the present state.",
	job.Gone:        "It was deleted. The audit log states by whom and why.",
	job.Unavailable: "Try it again in a few seconds.",
	job.Internal:    "The log of the server has the details. Report the time of this page to those who run it.",
}

// before returns the path of the page to go back to: that of the job or the form that a request is about; else the
// start page.
func (p *Pages) before(r *http.Request) string {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return "/"
	}
	if id := r.PathValue("id"); id != "" {
		return JobPath(job.ID(id))
	}
	_, pattern, _ := strings.Cut(r.Pattern, " ")
	at := r.URL.EscapedPath() // a name in it may have a slash or a question mark
	for ; len(pattern) > 1; pattern, at = path.Dir(pattern), path.Dir(at) {
		if slices.ContainsFunc(p.All(), func(of server.Route) bool {
			return of.Method == http.MethodGet && of.Pattern == pattern
		}) {
			return at
		}
	}
	return "/"
}
