package moodle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"time"

	"golang.org/x/net/html"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/source/moodle/page"
	"github.com/stagepost/stagepost/internal/retryafter"
)

// Login is an account that uses the pages of a Moodle as a browser does. The web services cannot start backups.
type Login struct {
	User, Password string
}

// String gives the name of the account.
func (l Login) String() string { return l.User + ":***" }

// GoString gives the name of the account.
func (l Login) GoString() string { return l.String() }

const (
	loginPath = "/login/index.php"
	maxPage   = 16 << 20
	maxHops   = 10
)

// session is a login by cookies. It is not safe for concurrent use.
type session struct {
	c     *client
	login Login
	http  http.Client
}

func newSession(c *client, login Login) (*session, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	s := &session{c: c, login: login, http: *c.http}
	s.http.Jar = jar
	return s, nil
}

// webPage is an answer for browsers.
type webPage struct {
	path   string // below the address of the Moodle, after redirects
	doc    *html.Node
	date   time.Time // by the clock of the Moodle
	status int
}

// page requests a page, and follows redirects within the Moodle. form is nil for GET.
func (s *session) page(ctx context.Context, target string, form url.Values) (*webPage, error) {
	u := s.c.base.String() + target
	for range maxHops {
		p, next, err := s.hop(ctx, u, form)
		if err != nil || next == "" {
			return p, err
		}
		u, form = next, nil // Moodle redirects with 303: the next request is GET (RFC 9110, section 15.4.4)
	}
	return nil, &source.Error{Op: target, Err: fmt.Errorf("more than %d redirects", maxHops)}
}

// hop makes one request. next is the address to which the Moodle redirects.
func (s *session) hop(ctx context.Context, address string, form url.Values) (p *webPage, next string, err error) {
	a, err := s.exchange(ctx, address, form)
	if err != nil || a.next != "" {
		return nil, a.next, err
	}
	p = &webPage{path: strings.TrimPrefix(a.path, s.c.base.Path), status: a.status, date: a.date}
	if p.doc, err = html.Parse(bytes.NewReader(a.text)); err != nil {
		return nil, "", &source.Error{Op: a.path, Err: err, Transient: true}
	}
	return p, "", p.failure(a.path)
}

// answered is the answer to one request of a session.
type answered struct {
	path   string // of the request
	next   string // address to which the Moodle redirects; empty: it does not
	status int
	date   time.Time // by the clock of the Moodle
	text   []byte
}

// exchange makes one request. form is nil for GET.
func (s *session) exchange(ctx context.Context, address string, form url.Values) (a answered, err error) {
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return a, err
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	a.path = r.URL.Path
	answer, err := s.http.Do(r)
	if err != nil {
		return a, &source.Error{Op: a.path, Err: s.clean(err), Transient: true}
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 && answer.StatusCode < 400 {
		if a.next, err = s.inside(r.URL, answer.Header.Get("Location")); err != nil {
			return a, &source.Error{Op: a.path, Err: err}
		}
		return a, nil
	}
	if retryafter.Passes(answer.StatusCode) {
		return a, &source.Error{Op: a.path, Transient: true, After: s.c.after(answer.Header),
			Err: fmt.Errorf("the Moodle answered %s", answer.Status)}
	}
	a.status = answer.StatusCode
	if a.text, err = io.ReadAll(io.LimitReader(answer.Body, maxPage+1)); err != nil {
		return a, &source.Error{Op: a.path, Err: s.clean(err), Transient: true}
	}
	if len(a.text) > maxPage { // what is missing at its end would count as not there
		return a, &source.Error{Op: a.path, Err: fmt.Errorf("the page has more than %d bytes", maxPage)}
	}
	a.date, _ = http.ParseTime(answer.Header.Get("Date"))
	return a, nil
}

// call posts a form to a script that answers with JSON, and decodes the answer. Without a valid login it fails with
// [errLoggedOut].
func (s *session) call(ctx context.Context, target string, form url.Values, into any) error {
	a, err := s.exchange(ctx, s.c.base.String()+target, form)
	switch {
	case err != nil:
		return err
	case a.next != "":
		return &source.Error{Op: target, Err: errLoggedOut, Transient: true}
	}
	if f, ok := failed(a.text); ok {
		if loginCodes[f.Code] {
			return &source.Error{Op: target, Code: f.Code, Err: errLoggedOut, Transient: true}
		}
		return f.as(target)
	}
	if err := json.Unmarshal(a.text, into); err != nil || a.status >= 400 {
		return &source.Error{Op: target, Transient: true,
			Err: fmt.Errorf("the answer has the status %d and is not what the script gives: %.200q", a.status, a.text)}
	}
	return nil
}

// errLoggedOut is a session that ended. Another login helps.
var errLoggedOut = errors.New("the Moodle ended the session")

// loginCodes are codes of errors of a session that ended.
var loginCodes = map[string]bool{"requireloginerror": true, "servicerequireslogin": true, "invalidsesskey": true}

// clean removes what is secret from an error.
func (s *session) clean(err error) error {
	text := err.Error()
	if s.login.Password != "" && strings.Contains(text, s.login.Password) {
		return errors.New(strings.ReplaceAll(text, s.login.Password, "***"))
	}
	return s.c.clean(err)
}

// inside resolves the target of a redirect or form, which must be part of the Moodle: the cookies and the password go
// nowhere else.
func (s *session) inside(at *url.URL, target string) (string, error) {
	u, err := at.Parse(target)
	if err != nil {
		return "", errors.New("the Moodle names an address that is no URL")
	}
	if u.Path == "" {
		u.Path = "/"
	}
	if u.Scheme != s.c.base.Scheme || u.Host != s.c.base.Host || !strings.HasPrefix(u.Path, s.c.base.Path+"/") {
		return "", fmt.Errorf("the Moodle leads to %s://%s: only its own login page is supported, for an account of "+
			"the type manual", u.Scheme, u.Host)
	}
	return u.String(), nil
}

var errorCode = regexp.MustCompile(`/error/[a-z0-9_]+/([a-z0-9_]+)$`)

// failure recognizes a page that shows an error of the Moodle.
func (p *webPage) failure(op string) error {
	box := page.Find(p.doc, func(n *html.Node) bool {
		return page.Attr(n, "data-rel") == "fatalerror" || page.HasClass(n, "errorbox")
	})
	if box == nil {
		if p.status >= 400 {
			return &source.Error{Op: op, Err: fmt.Errorf("the Moodle answered %d", p.status)}
		}
		return nil
	}
	f := failure{Message: page.Text(box)}
	if at := page.Find(box, func(n *html.Node) bool { return page.HasClass(n, "errormessage") }); at != nil {
		f.Message = page.Text(at)
	}
	for n := range box.Descendants() {
		if m := errorCode.FindStringSubmatch(page.Attr(n, "href")); m != nil {
			f.Code = m[1]
		}
	}
	return f.as(op)
}

// loggedOut reports whether a page is the login page.
func (p *webPage) loggedOut() bool { return page.FormWith(p.doc, "logintoken") != nil }

// signIn logs in. A refused password is an error that stays: repetitions would lock the account.
func (s *session) signIn(ctx context.Context) error {
	p, err := s.page(ctx, loginPath, nil)
	if err != nil {
		return err
	}
	f := page.FormWith(p.doc, "logintoken")
	if f == nil {
		if page.Find(p.doc, func(n *html.Node) bool { return page.Attr(n, "name") == "sesskey" }) != nil {
			return nil // the page offers to log out: the session is valid
		}
		return &source.Error{Op: loginPath, Err: errors.New("the login page has no form for a name and a password")}
	}
	fields := f.Fields
	fields.Set("username", s.login.User)
	fields.Set("password", s.login.Password)
	p, err = s.page(ctx, loginPath, fields)
	if err != nil {
		return err
	}
	if p.loggedOut() {
		why := "the name or the password is wrong"
		if n := page.Find(p.doc, func(n *html.Node) bool { return page.HasClass(n, "alert-danger") }); n != nil {
			why = page.Text(n)
		}
		return &source.Error{Op: loginPath, Code: "invalidlogin", Err: fmt.Errorf("login as %s: %s", s.login.User, why)}
	}
	return nil
}

// form requests a page with a form that has a field, and logs in if the session ended. The form is nil if the page has
// none.
func (s *session) form(ctx context.Context, target, field string) (*webPage, *page.Form, error) {
	for try := 0; ; try++ {
		p, err := s.page(ctx, target, nil)
		if err != nil {
			return nil, nil, err
		}
		if p.loggedOut() && try == 0 {
			if err := s.signIn(ctx); err != nil {
				return nil, nil, err
			}
			continue
		}
		if want, _, _ := strings.Cut(target, "?"); p.path != want {
			return nil, nil, &source.Error{Op: want, Code: "nopermissions", Err: fmt.Errorf(
				"the Moodle leads to %s: log in as %s by a browser and complete what the page asks for, or give the "+
					"account the right to view the course", p.path, s.login.User)}
		}
		return p, page.FormWith(p.doc, field), nil
	}
}
