package flowfile

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/flowfile/process"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/flow"
)

func anyClient() *fetch.Client {
	return fetch.New(fetch.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
}

// seen is what a server saw of a request.
type seen struct{ Method, URI, Body, Type, Key, Header string }

// serve answers every request with what it saw.
func serve(t *testing.T, status int) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(seen{r.Method, r.RequestURI, string(body), r.Header.Get("Content-Type"),
			r.Header.Get("Idempotency-Key"), r.Header.Get("X-Note")})
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func ask(t *testing.T, request string, inputs flow.Values) (seen, error) {
	t.Helper()
	text := "flow: f\ninputs: {base: {required: true}, v: 1, w: 2}\nlinear:\n  - task: a\n    provides: x\n    http: {" + request + "}\n"
	r := begin(t, text, Options{HTTP: anyClient()}, inputs)
	err := r.Run(t.Context())
	var s seen
	if v, there := r.Value("x"); there && err == nil {
		if err := v.Into(&s); err != nil {
			t.Fatal(err)
		}
	}
	return s, err
}

func TestRequests(t *testing.T) {
	base := serve(t, 200)
	nasty := `a/../b?c=d&e#"f{w}` + "\u2028ü"
	for _, c := range []struct {
		request string
		v       any
		want    seen
	}{
		{`url: "{base}/x/{v}"`, nasty, seen{Method: "GET", URI: "/x/a%2F..%2Fb%3Fc=d&e%23%22f%7Bw%7D%E2%80%A8%C3%BC"}},
		{`url: "{base}/x?q={v}&r={w}"`, nasty, seen{Method: "GET", URI: "/x?q=a%2F..%2Fb%3Fc%3Dd%26e%23%22f%7Bw%7D%E2%80%A8%C3%BC&r=2"}},
		{`url: "{base}/", method: POST, body: {v: "{v}", t: "is {v}!", l: [1, "{w}"]}`, nasty,
			seen{"POST", "/", `{"l":[1,2],"t":"is a/../b?c=d&e#\"f{w}\u2028ü!","v":"a/../b?c=d&e#\"f{w}\u2028ü"}`, "application/json", "f/a/1", ""}},
		{`url: "{base}/", method: POST, body: '{"v": "is {v}", "w": {w}}'`, nasty, seen{"POST", "/", `{"v": "is a/../b?c=d&e#\"f{w}\u2028ü", "w": 2}`, "application/json", "f/a/1", ""}},
		{`url: "{base}/", method: PUT, body: hello`, 1, seen{"PUT", "/", "hello", "text/plain; charset=utf-8", "f/a/1", ""}},
		{`url: "{base}/", method: POST, form: {v: "{v}", k: x}`, "a&b=c", seen{"POST", "/", "k=x&v=a%26b%3Dc", "application/x-www-form-urlencoded", "f/a/1", ""}},
		{`url: "{base}/", headers: {X-Note: "v {v}"}`, true, seen{Method: "GET", URI: "/", Header: "v true"}},
		{`url: "{base}/", method: DELETE, headers: {Idempotency-Key: "k{v}"}`, 7, seen{Method: "DELETE", URI: "/", Key: "k7"}},
	} {
		got, err := ask(t, c.request, flow.Values{"base": base, "v": c.v})
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", c.request, err, diff)
		}
	}
}

// TestRefusedValues are those that would change where a request goes, or what else it states.
func TestRefusedValues(t *testing.T) {
	base := serve(t, 200)
	for _, c := range []struct {
		request string
		v       any
		want    string
	}{
		{`url: "{base}/x/{v}/y"`, "..", `url: a segment of the path would be ".."`},
		{`url: "{base}/x/{v}{w}/y"`, ".", ``},
		{`url: "{base}/x/.{v}/y"`, ".", `url: a segment of the path would be ".."`},
		{`url: "{base}/x/{v}"`, "", `url: {v}: it is empty, and a segment of a path cannot be`},
		{`url: "{v}/x"`, "file:///etc", `url: {v}: it is no base of a URL: http:// or https://, a host, and perhaps a path`},
		{`url: "{v}/x"`, "http://a@b", `url: {v}: it is no base of a URL: http:// or https://, a host, and perhaps a path`},
		{`url: "{v}/x"`, "http://a?b", `url: {v}: it is no base of a URL: http:// or https://, a host, and perhaps a path`},
		{`url: "{base}/", headers: {X-Note: "{v}"}`, "a\r\nX-Evil: b", `header X-Note: {v}: it holds control characters, which a header cannot`},
	} {
		_, err := ask(t, c.request, flow.Values{"base": base, "v": c.v, "w": "z"})
		if got := ""; err != nil {
			if got = err.Error(); got != c.want {
				t.Errorf("%s: got %s", c.request, got)
			}
		} else if c.want != "" {
			t.Errorf("%s with %q is sent", c.request, c.v)
		}
	}
}

func TestRequestFailures(t *testing.T) {
	for status, kind := range map[int]string{404: TypeHTTPRefused, 302: TypeHTTPRefused, 500: TypeHTTPUnavailable,
		429: TypeHTTPUnavailable} {
		base := serve(t, status)
		_, err := ask(t, `url: "{base}/x?secret={v}"`, flow.Values{"base": base})
		f := failureOf(t, err)
		if f.Type != kind || !strings.HasPrefix(f.Message, "GET "+base+"/x: ") ||
			strings.Contains(f.Message, base+"/x?") {
			t.Errorf("%d: %s %s", status, f.Type, f.Message)
		}
		if _, err := ask(t, `url: "{base}/", expect: [404, 302, 500, 429]`, flow.Values{"base": base}); err != nil {
			t.Errorf("%d is expected: %v", status, err)
		}
	}
	guarded := "flow: f\ninputs: {base: {required: true}}\nlinear:\n  - task: a\n    http: {url: '{base}/'}\n"
	for base, want := range map[string]string{
		serve(t, 200): "is loopback", "http://169.254.169.254": "is link-local", "http://[::1]:8080": "is loopback",
		"http://10.1.2.3:25": "port 25 is not allowed",
	} {
		r := begin(t, guarded, Options{HTTP: fetch.New(fetch.Policy{})}, flow.Values{"base": base})
		if f := failureOf(t, r.Run(t.Context())); !strings.Contains(f.Message, want) ||
			strings.HasPrefix(want, "port") && f.Type != TypeHTTPForbidden {
			t.Errorf("%s: %s %s", base, f.Type, f.Message)
		}
	}
}

func TestLargeAnswer(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(make([]byte, MaxOutput+1))
	}))
	defer s.Close()
	if f := failureOf(t, func() error {
		_, err := ask(t, `url: "{base}/"`, flow.Values{"base": s.URL})
		return err
	}()); f.Type != process.TypeOutputTooLarge {
		t.Error(f)
	}
}

// TestRevertByRequest reverts what a request made, by what it answered.
func TestRevertByRequest(t *testing.T) {
	var deleted []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "DELETE" {
			deleted = append(deleted, r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = w.Write([]byte(`{"id": 17}`))
	}))
	defer s.Close()
	text := `flow: f
inputs: {base: {required: true}}
linear:
  - task: make
    http: {method: POST, url: "{base}/things", body: {a: 1}}
    provides: {keys: [id]}
    revert: {http: {method: DELETE, url: "{base}/things/{id}"}}
  - {task: fail, go: fail}
`
	r := begin(t, text, Options{HTTP: anyClient(), Go: map[string]Func{"fail": {Execute: failing}}},
		flow.Values{"base": s.URL})
	if err := r.Run(t.Context()); err == nil || !cmp.Equal(deleted, []string{"/things/17"}) {
		t.Errorf("%v, %v", err, deleted)
	}
}
