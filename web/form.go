package web

import (
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/problem"
	"github.com/stagepost/stagepost/web/entered"
)

// Form is a form that a page sent. A field that no handler reads is refused, as the API refuses unknown fields.
type Form struct {
	values url.Values
	wrong  error
}

// readForm reads the body of a request. An empty body is an empty form. Of one that is too large the form has the
// beginning.
func readForm(r *http.Request) (*Form, error) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if r.ContentLength != 0 && (err != nil || media != "application/x-www-form-urlencoded") {
		return nil, problem.Refuse(http.StatusUnsupportedMediaType, job.Invalid,
			"the body must be a form (application/x-www-form-urlencoded); programs use the API below /api/v1")
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return &Form{values: entered.Parse(text, true)}, server.BodyError(err)
	}
	values, err := url.ParseQuery(string(text))
	if err != nil {
		err = server.BodyError(err)
	}
	return &Form{values: values}, err
}

// Text returns a field without blanks around it; "" if the form lacks it.
func (f *Form) Text(name string) string {
	v := f.values[name]
	delete(f.values, name)
	if len(v) > 1 {
		f.Wrong("%s was sent %d times", name, len(v))
	}
	if len(v) == 0 {
		return ""
	}
	return strings.TrimSpace(strings.ReplaceAll(v[0], "\r\n", "\n"))
}

// Line returns a field as one line: reasons have no line breaks.
func (f *Form) Line(name string) string { return strings.Join(strings.Fields(f.Text(name)), " ") }

// All returns all values of a field that are not empty.
func (f *Form) All(name string) (all []string) {
	for _, v := range f.values[name] {
		if v != "" {
			all = append(all, v)
		}
	}
	delete(f.values, name)
	return all
}

// Checked reports whether a check box was checked.
func (f *Form) Checked(name string) bool { return f.Text(name) != "" }

// Time returns a field as browsers send a time without a zone: it is UTC, as the form states. Zero: it is empty.
func (f *Form) Time(name string) time.Time {
	text := f.Text(name)
	if text == "" {
		return time.Time{}
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC()
		}
	}
	f.Wrong("%s must be a time such as 2006-01-02T15:04, not %.40q", name, text)
	return time.Time{}
}

// Wrong notes a mistake, unless there was one before.
func (f *Form) Wrong(format string, args ...any) {
	if f.wrong == nil {
		f.wrong = job.Errorf(job.Invalid, "form", "", format, args...)
	}
}

// Err returns the first mistake, among them a field that was not read.
func (f *Form) Err() error {
	for name := range f.values {
		f.Wrong("the form has no field %.40q", name)
	}
	return f.wrong
}

// noticeCookie carries what a form has done to the page that follows.
const noticeCookie = "stagepost-notice"

func putNotice(w http.ResponseWriter, text string) {
	http.SetCookie(w, &http.Cookie{Name: noticeCookie, Value: url.QueryEscape(text), Path: "/", MaxAge: 30,
		HttpOnly: true, SameSite: http.SameSiteStrictMode})
}

// takeNotice returns the notice of the form before, once.
func takeNotice(w http.ResponseWriter, r *http.Request) string {
	c, err := r.Cookie(noticeCookie)
	if err != nil || c.Value == "" {
		return ""
	}
	http.SetCookie(w, &http.Cookie{Name: noticeCookie, Path: "/", MaxAge: -1, HttpOnly: true,
		SameSite: http.SameSiteStrictMode})
	text, err := url.QueryUnescape(c.Value)
	if err != nil {
		return ""
	}
	return text
}

// themes are the values of the switch: by the system, light, dark, high contrast.
var themes = []string{"auto", "light", "dark", "contrast"}

const themeCookie = "stagepost-theme"

// themeOf returns the theme that a browser chose; auto by default.
func themeOf(r *http.Request) string {
	if c, err := r.Cookie(themeCookie); err == nil {
		for _, t := range themes {
			if c.Value == t {
				return t
			}
		}
	}
	return themes[0]
}
