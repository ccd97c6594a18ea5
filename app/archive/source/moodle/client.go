package moodle

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/internal/retryafter"
)

// maxAnswer bounds the answer of one call.
const maxAnswer = 256 << 20

// client calls functions of the web services and downloads files. It never logs or returns the token.
type client struct {
	base  *url.URL // of the Moodle, without a slash at the end
	token string
	http  *http.Client
	now   func() time.Time
	idle  time.Duration // for which a download may stand still
}

// params are the parameters of a function; lists and structures are flattened as PHP reads them (courseids[0]).
type params map[string]any

func (p params) form() url.Values {
	out := url.Values{}
	for name, v := range p {
		flatten(out, name, v)
	}
	return out
}

func flatten(out url.Values, name string, v any) {
	switch v := v.(type) {
	case []string:
		for i, one := range v {
			out.Set(fmt.Sprintf("%s[%d]", name, i), one)
		}
	case []params:
		for i, one := range v {
			for key, value := range one {
				flatten(out, fmt.Sprintf("%s[%d][%s]", name, i, key), value)
			}
		}
	default:
		out.Set(name, fmt.Sprint(v))
	}
}

// failure is an error as Moodle answers it, with the status 200.
type failure struct {
	Exception string `json:"exception"`
	Code      string `json:"errorcode"`
	Message   string `json:"message"`
	Error     string `json:"error"`
}

// transient are codes of errors that pass.
var transient = map[string]bool{
	"dbconnectionfailed": true, "maintenancemode": true, "sitemaintenance": true, "locktimeout": true,
	"dmlreadexception": true, "dmlwriteexception": true, "serverbusy": true,
}

// final are codes of errors that stay until a person changes something.
var final = map[string]bool{
	"invalidtoken": true, "accessexception": true, "nopermissions": true, "nopermission": true, "invalidrecord": true,
	"invalidparameter": true, "invalidrecordunknown": true, "requireloginerror": true, "filenotfound": true,
	"servicenotavailable": true, "enablewsdescription": true, "accesscontrol": true, "usernotallowed": true,
	"servicerequireslogin": true, "sitepolicynotagreed": true, "forcepasswordchangenotice": true,
	"usernotfullysetup": true, "passwordisexpired": true, "wsaccessuserdeleted": true, "wsaccessusersuspended": true,
	"wsaccessuserunconfirmed": true, "wsaccessuserexpired": true, "wsaccessusernologin": true,
	"errorcoursecontextnotvalid": true, "coursehidden": true, "invalidcourseid": true, "invalidcoursemodule": true,
	"noviewreports": true, "invalidlogin": true,
}

// finalKinds are kinds of exceptions with the same meaning, whatever their codes.
var finalKinds = map[string]bool{
	"required_capability_exception": true, "webservice_access_exception": true, "require_login_exception": true,
	"invalid_parameter_exception": true, "dml_missing_record_exception": true,
}

// advice is what to change after an error whose message does not name it.
var advice = map[string]string{
	"invalidtoken":        "make a new token for the account",
	"accessexception":     "add the function to the web service of the token, and give the account webservice/rest:use",
	"sitepolicynotagreed": "log in as the account by a browser and accept the policy",
}

// call calls a function and decodes its answer. It gives the answer as it came as well.
func (c *client) call(ctx context.Context, function string, p params, into any) ([]byte, error) {
	form := p.form()
	form.Set("wstoken", c.token)
	form.Set("moodlewsrestformat", "json")
	form.Set("wsfunction", function)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base.String()+"/webservice/rest/server.php",
		strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	answer, err := c.do(r, function)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, &source.Error{Op: function, Err: c.clean(err), Transient: true}
	case len(body) > maxAnswer:
		return nil, &source.Error{Op: function, Err: fmt.Errorf("the answer has more than %d bytes", maxAnswer)}
	}
	if f, ok := failed(body); ok {
		return nil, f.as(function)
	}
	if into == nil {
		return body, nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return nil, &source.Error{
			Op: function, Transient: true,
			Err: fmt.Errorf("the answer is not what the function gives: %w: %.200q", err, body),
		}
	}
	return body, nil
}

// failed recognizes an error: a JSON object with an exception, or with an error and its code.
func failed(body []byte) (f failure, ok bool) {
	if trimmed := bytes.TrimSpace(body); len(trimmed) == 0 || trimmed[0] != '{' {
		return f, false
	}
	if json.Unmarshal(body, &f) != nil {
		return f, false
	}
	return f, f.Exception != "" || f.Code != "" && (f.Error != "" || f.Message != "")
}

func (f failure) as(op string) error {
	text := cmp.Or(f.Message, f.Error, f.Exception)
	if more := advice[f.Code]; more != "" {
		text += ": " + more
	}
	// An unknown exception is tried again: it costs a few attempts, and ends in the same failure.
	return &source.Error{Op: op, Code: f.Code, Err: errors.New(text),
		Transient: transient[f.Code] || !final[f.Code] && !finalKinds[f.Exception]}
}

// do sends a request. An answer of another status than 200 and 206 is an error.
func (c *client) do(r *http.Request, op string) (*http.Response, error) {
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, &source.Error{Op: op, Err: c.clean(err), Transient: true}
	}
	switch s := answer.StatusCode; {
	case s == http.StatusOK, s == http.StatusPartialContent:
		return answer, nil
	case s >= 300 && s < 400:
		err = fmt.Errorf("the Moodle redirects to %s", c.cleanText(answer.Header.Get("Location")))
		if strings.Contains(answer.Header.Get("Location"), "/login/") {
			err = errors.New("the Moodle asks for a login: the token does not give access to this file")
		}
	default:
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 4096))
		if f, ok := failed(text); ok {
			err = f.as(op)
		} else {
			err = fmt.Errorf("the Moodle answered %s", answer.Status)
		}
	}
	answer.Body.Close()
	var known *source.Error
	if errors.As(err, &known) {
		return nil, err
	}
	return nil, &source.Error{Op: op, Err: err, Transient: retryafter.Passes(answer.StatusCode),
		After: c.after(answer.Header)}
}

// after gives the wait for which an answer asks (RFC 9110, section 10.2.3).
func (c *client) after(h http.Header) time.Duration {
	return retryafter.Parse(h.Get("Retry-After"), c.now())
}

// clean removes the token from an error.
func (c *client) clean(err error) error {
	if text := err.Error(); strings.Contains(text, c.token) {
		return errors.New(c.cleanText(text))
	}
	return err
}

func (c *client) cleanText(text string) string { return strings.ReplaceAll(text, c.token, "***") }
