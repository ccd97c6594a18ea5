package flowfile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stagepost/stagepost/app/flowfile/process"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/format/tree"
	"github.com/stagepost/stagepost/internal/retryafter"
)

// request is what http states.
type request struct {
	method  string
	url     address
	headers []field
	form    []field
	json    any       // body as keys or a list
	text    *document // body as a text
	holes   bool      // there are some in text
	expect  []int
	wants   []ref // the values that it needs
}

// field is a header or an entry of a form.
type field struct {
	name string
	template
}

var headerName = regexp.MustCompile(`^[A-Za-z0-9!#$%&'*+.^_|~-]{1,100}$`)

// ownHeaders are not for files: they state where a message ends and who is asked.
var ownHeaders = []string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Te", "Trailer",
	"Expect", "Keep-Alive"}

// http reads a request.
func (r *reader) http(a *action, t *tree.Node) {
	if r.o.HTTP == nil && !r.o.any {
		r.wrong(a.place, "requests are off")
	}
	if !r.keys(t, "http", httpKeys) {
		return
	}
	q := &request{method: r.oneOf(t.Get("method"), "method", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")}
	a.request = q
	want := func(at place, x template) {
		for _, name := range x.names {
			if !slices.ContainsFunc(q.wants, func(one ref) bool { return one.name == name }) {
				q.wants = append(q.wants, ref{at, name})
			}
		}
	}
	if u := t.Get("url"); u == nil {
		r.wrong(t.Position, "http needs a url")
	} else if text := r.text(u, "url"); text != "" {
		var err error
		if q.url, err = newAddress(text); err != nil {
			r.wrong(u.Position, "url: %v", err)
		}
		want(u.Position, q.url.template)
	}
	q.headers, q.form = r.fields(t.Get("headers"), "headers", want), r.fields(t.Get("form"), "form", want)
	r.body(q, t, want)
	if expect := t.Get("expect"); expect != nil {
		for _, one := range append([]*tree.Node{}, expect.Items...) {
			q.expect = append(q.expect, r.whole(one, "expect", 100, 200))
		}
		if len(q.expect) == 0 {
			r.wrong(expect.Position, "expect is a list of statuses, such as [200, 404]")
		}
	}
}

func (r *reader) fields(t *tree.Node, what string, want func(place, template)) []field {
	if t == nil {
		return nil
	}
	if t.Kind != tree.Mapping {
		r.wrong(t.Position, "%s are written as name: value, not as %s", what, t.Describe())
		return nil
	}
	var all []field
	for _, m := range t.Members {
		if what == "headers" && (!headerName.MatchString(m.Name) ||
			slices.Contains(ownHeaders, http.CanonicalHeaderKey(m.Name))) {
			r.wrong(m.Position, "%.60q is no header that a file may set", m.Name)
			continue
		}
		f := field{m.Name, newTemplate(r.text(m.Value, what))}
		if strings.ContainsAny(strings.Join(f.texts, ""), "\r\n\x00") && what == "headers" {
			r.wrong(m.Value.Position, "a header is one line")
		}
		want(m.Value.Position, f.template)
		all = append(all, f)
	}
	return all
}

func (r *reader) body(q *request, t *tree.Node, want func(place, template)) {
	body := t.Get("body")
	if (body != nil || q.form != nil) && (q.method == "GET" || q.method == "HEAD") {
		r.wrong(t.Position, "a %s has no body: add method: POST", q.method)
	}
	if body == nil {
		return
	}
	if q.form != nil {
		r.wrong(t.At("body"), "there is a form already: a request has one body")
	}
	if body.Kind != tree.Leaf {
		q.json = body.Plain()
		for _, one := range body.All() {
			if text, is := one.Value.(string); is {
				want(one.Position, newTemplate(text))
			}
		}
		return
	}
	d, err := newDocument(r.text(body, "body"))
	if err != nil {
		r.wrong(body.Position, "body: %v", err)
	}
	q.text, q.holes = &d, len(d.names) > 0
	want(body.Position, d.template)
}

// Types of failures of requests.
const (
	TypeHTTPRefused     = "HTTPRefused"     // the answer has an unexpected status, and a second try would get it again
	TypeHTTPUnavailable = "HTTPUnavailable" // no answer, or one that states to come back later (5xx, 408, 425, 429)
	TypeHTTPForbidden   = "HTTPForbidden"   // the address must not be asked
)

// RequestError is why a request failed.
type RequestError struct {
	Type   string
	Method string
	URL    string // without what may be secret
	Status int    // 0: there was no answer
	Body   string // the beginning of the answer
	Err    error
}

// Error is part of error.
func (e *RequestError) Error() string {
	text := e.Method + " " + e.URL + ": "
	if e.Err != nil {
		return text + e.Err.Error()
	}
	text += fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status))
	if e.Body != "" {
		text += ": " + e.Body
	}
	return text
}

// Unwrap gives the cause.
func (e *RequestError) Unwrap() error { return e.Err }

// FailureType is part of flow.Typed.
func (e *RequestError) FailureType() string { return e.Type }

// make builds the request for the given values.
func (q *request) make(ctx context.Context, value lookup) (*http.Request, error) {
	text, err := q.url.fill(value)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	body, kind, err := q.content(value)
	if err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, q.method, text, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "stagepost")
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	for _, f := range q.headers {
		text, err := f.header(value)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", f.name, err)
		}
		req.Header.Set(f.name, text)
	}
	return req, nil
}

// content gives the body and its type.
func (q *request) content(value lookup) (body []byte, kind string, err error) {
	switch {
	case q.form != nil:
		form := url.Values{}
		for _, f := range q.form {
			text, err := f.whole(value)
			if err != nil {
				return nil, "", err
			}
			form.Set(f.name, text)
		}
		return []byte(form.Encode()), "application/x-www-form-urlencoded", nil
	case q.json != nil:
		filled, err := fillTree(q.json, value)
		if err != nil {
			return nil, "", err
		}
		body, err = compactJSON(filled)
		return body, "application/json", err
	case q.text != nil:
		text, err := q.text.fill(value)
		kind = "text/plain; charset=utf-8"
		if q.holes || json.Valid([]byte(text)) {
			kind = "application/json"
		}
		return []byte(text), kind, err
	}
	return nil, "", nil
}

// do sends the request; what comes back is read as output states.
func (q *request) do(ctx context.Context, o *Options, key, output string, value lookup) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, o.HTTPTimeout)
	defer cancel()
	req, err := q.make(ctx, value)
	if err != nil {
		return nil, invalid(nil, "%v", err)
	}
	if q.method != "GET" && q.method != "HEAD" && req.Header.Get("Idempotency-Key") == "" {
		req.Header.Set("Idempotency-Key", key)
	}
	shown := *req.URL
	shown.User, shown.RawQuery = nil, ""
	failed := &RequestError{Type: TypeHTTPUnavailable, Method: q.method, URL: shown.String()}
	fail := func(err error) (any, error) {
		var refused *fetch.Error
		if errors.As(err, &refused) && refused.Kind == fetch.Refused {
			failed.Type = TypeHTTPForbidden
		}
		var dial *url.Error
		if errors.As(err, &dial) {
			err = dial.Err
		}
		failed.Err = err
		return nil, failed
	}
	if err := o.HTTP.Check(req.URL.String()); err != nil {
		return fail(err)
	}
	resp, err := o.HTTP.Transport().RoundTrip(req)
	if err != nil {
		return fail(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxOutput+1))
	if err != nil {
		return fail(err)
	}
	failed.Status = resp.StatusCode
	if !q.expected(resp.StatusCode) {
		if !retryafter.Passes(resp.StatusCode) {
			failed.Type = TypeHTTPRefused
		}
		failed.Body = strings.ToValidUTF8(string(body[:min(len(body), 512)]), "\uFFFD")
		return nil, failed
	}
	if len(body) > MaxOutput {
		return nil, &process.OutputError{Type: process.TypeOutputTooLarge,
			Text: fmt.Sprintf("the answer has more than %d bytes", MaxOutput)}
	}
	if kind := resp.Header.Get("Content-Type"); output == "" && len(body) > 0 && isJSON(kind) {
		output = "json"
	}
	return result(body, or(output, "text"))
}

func isJSON(kind string) bool {
	kind, _, _ = strings.Cut(strings.ToLower(kind), ";")
	kind = strings.TrimSpace(kind)
	return kind == "application/json" || strings.HasSuffix(kind, "+json")
}

func (q *request) expected(status int) bool {
	if q.expect == nil {
		return status >= 200 && status < 300
	}
	return slices.Contains(q.expect, status)
}

// Types of failures of what came out.
const (
	TypeBadOutput = "BadOutput" // it is not the JSON that was promised, or not UTF-8
)

// result makes a task's result of what came out.
func result(text []byte, output string) (any, error) {
	if output == "line" {
		text = bytes.TrimSpace(text)
		text = text[bytes.LastIndexByte(text, '\n')+1:]
	}
	if output != "none" && !utf8.Valid(text) {
		return nil, &process.OutputError{Type: TypeBadOutput,
			Text: "the output is not UTF-8 text: print it in UTF-8, or as base64 or hexadecimal digits; " +
				"output: none ignores it"}
	}
	switch output {
	case "none":
		return nil, nil
	case "json":
		v, err := decodeJSON(text)
		if err != nil {
			return nil, &process.OutputError{Type: TypeBadOutput, Text: fmt.Sprintf("the output is not JSON: %v", err)}
		}
		return v, nil
	}
	return string(bytes.TrimSpace(text)), nil
}

// holes looks up a hole among the arguments of a call.
func holes(values flow.Values) lookup {
	return func(name string) (any, error) {
		v, there := values[name]
		if !there {
			return nil, fmt.Errorf("there is no value %s", name)
		}
		return flow.ValueOf(v).Any(), nil
	}
}
