package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestHostileBodies sends bodies that must be refused, and controls that differ from them in one thing.
func TestHostileBodies(t *testing.T) {
	w := servertest.Open(t, func(o *server.Options) { o.MaxBody = 4096 }, nil)
	deep := func(n int) string { return `{"why":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}` }
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"control":              {`{"group":"a","why":"b"}`, 200},
		"control, spaces":      {" \n{ \"group\" : \"a\" , \"why\" : \"b\" } \t", 200},
		"control, escaped":     {`{"group":"a","why":"\u0022,\"why\":\\"}`, 200},
		"empty":                {``, 415},
		"two values":           {`{"group":"a","why":"b"} {}`, 400},
		"trailing":             {`{"group":"a","why":"b"}x`, 400},
		"cut off":              {`{"group":"a","why":"b"`, 400},
		"unknown":              {`{"group":"a","why":"b","x":1}`, 400},
		"twice":                {`{"group":"a","why":"b","why":"c"}`, 400},
		"twice, other case":    {`{"group":"a","why":"b","Why":"c"}`, 400},
		"twice, escaped":       {`{"group":"a","why":"b","wh\u0079":"c"}`, 400},
		"twice, folded":        {`{"kind":"a","why":"b","\u212aind":"c"}`, 400},
		"wrong type":           {`{"group":1,"why":"b"}`, 400},
		"null":                 {`null`, 400},
		"array":                {`[]`, 400},
		"number":               {`1e999`, 400},
		"number out of range":  {`{"group":"a","why":"b","until":1}`, 400},
		"nan":                  {`{"group":NaN}`, 400},
		"comment":              {`{"group":"a"/**/,"why":"b"}`, 400},
		"control character":    {"{\"group\":\"a\x01\",\"why\":\"b\"}", 400},
		"deep":                 {deep(1000), 400},
		"deep objects":         {strings.Repeat(`{"why":`, 100) + "1" + strings.Repeat("}", 100), 400},
		"too large":            {`{"group":"a","why":"` + strings.Repeat("b", 4096) + `"}`, 413},
		"single quotes":        {`{'group':'a'}`, 400},
		"byte order mark":      {"\xef\xbb\xbf{}", 400},
		"nothing but brackets": {strings.Repeat("[", 3000), 400},
		"control, pair":        {`{"group":"a","why":"\ud83d\ude00"}`, 200},
		"control, no escape":   {`{"group":"a","why":"\\ud800"}`, 200},
		"no UTF-8":             {"{\"group\":\"a\",\"why\":\"\xff\"}", 400},
		"overlong":             {"{\"group\":\"a\",\"why\":\"\xc0\xaf\"}", 400},
		"surrogate in UTF-8":   {"{\"group\":\"a\",\"why\":\"\xed\xa0\x80\"}", 400},
		"first half":           {`{"group":"a","why":"\ud800"}`, 400},
		"first half twice":     {`{"group":"a","why":"\ud800\ud800"}`, 400},
		"second half":          {`{"group":"a","why":"\uDFFFa"}`, 400},
		"halves exchanged":     {`{"group":"a","why":"\udc00\ud800"}`, 400},
		"half before a pair":   {`{"group":"a","why":"\ud800\ud83d\ude00"}`, 400},
		"half behind a pair":   {`{"group":"a","why":"\ud83d\ude00\ude00"}`, 400},
		"half in a name":       {`{"group":"a","why":"b","\ud800":1}`, 400},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.Request(http.MethodPut, "/api/v1/holds", c.body)
			answer, text := w.Ask(r)
			if answer.StatusCode != c.status {
				t.Errorf("got %s, want %d: %s", answer.Status, c.status, text)
			}
		})
	}
}

func TestMediaType(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	for media, status := range map[string]int{
		"application/json": 200, "application/json; charset=utf-8": 200, `application/json; charset="UTF-8"`: 200,
		"application/json; charset=latin1": 415, "application/json; charset=": 415,
		"text/plain": 415, "": 415, "application/x-www-form-urlencoded": 415, "multipart/form-data; boundary=x": 415,
		"application/json-seq": 415,
	} {
		r := w.Request(http.MethodPut, "/api/v1/holds", `{"group":"a","why":"b"}`)
		r.Header.Set("Content-Type", media)
		if answer, _ := w.Ask(r); answer.StatusCode != status {
			t.Errorf("%q: got %s, want %d", media, answer.Status, status)
		}
	}
}

// TestHostileTargets asks for paths, parameters and headers that no honest client sends; none may be a fault of the
// server.
func TestHostileTargets(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	id := string(w.Post(engine.Order{}).ID)
	for _, target := range []string{
		"/api/v1/jobs/..%2f..%2fetc%2fpasswd", "/api/v1/jobs/%00", "/api/v1/jobs/..%2f..%2fetc%2fpasswd/log",
		"/api/v1/jobs/" + strings.Repeat("a", 9000),
		"/api/v1/jobs/" + id + "/log?offset=-1", "/api/v1/jobs/" + id + "/log?offset=99999999999999999999",
		"/api/v1/jobs/" + id + "/history?limit=0x10",
		"/api/v1/jobs?limit=-1", "/api/v1/jobs?limit=1&limit=2", "/api/v1/jobs?kind=%zz",
		"/api/v1/jobs?ended=perhaps", "/api/v1/jobs?order=by;drop",
		"/api/v1/jobs?key=" + strings.Repeat("k", 5000), "/api/v1/jobs?" + strings.Repeat("state=x&", 200),
		"/api/v1/jobs?kind=a;b",
		"/api/v1/lifecycles/..%2f..", "/api/v1/lifecycles/test.letter.exe", "/api/v1/lifecycles/test.letter.svg.svg",
		"/api/v1/jobs/" + id + "/events?after=-5", "/api/v1/jobs/" + id + "/why?at=0000-00-00T00:00:00Z",
		"/%2e%2e/%2e%2e/etc/passwd",
	} {
		answer, text := w.Ask(w.Request(http.MethodGet, target, ""))
		if answer.StatusCode < 400 || answer.StatusCode >= 500 {
			t.Errorf("%.80s: got %s: %.200s", target, answer.Status, text)
		}
		if answer.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%.80s: got %s", target, answer.Header.Get("Content-Type"))
		}
		servertest.CheckHeaders(t, answer)
	}
	for _, last := range []string{"1; DROP TABLE", "-1", "1-", "1-0123", "-0123456789abcdef"} {
		r := w.Request(http.MethodGet, "/api/v1/jobs/"+id+"/events", "")
		r.Header.Set("Last-Event-ID", last)
		w.Problem(r, http.StatusBadRequest, job.Invalid)
	}
	r := w.Request(http.MethodGet, "/healthz", "")
	r.Header.Set("X-Large", strings.Repeat("x", 64<<10))
	if answer, _ := w.Ask(r); answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a large header: got %s", answer.Status)
	}
}

// replaced fails if the decoder of a text, which is JSON, replaces anything in it by U+FFFD.
func replaced(t *testing.T, text []byte) {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return // nested deeper
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	own := strings.Count(string(text), "\ufffd") + strings.Count(strings.ToLower(string(text)), `\ufffd`)
	if own == 0 && strings.Contains(string(out), "\ufffd") {
		t.Fatalf("accepted %q, which the decoder changes to %q", text, out)
	}
}

// FuzzStrict compares the strict decoder with encoding/json: it accepts nothing that json does not, and what it
// accepts has the same value.
func FuzzStrict(f *testing.F) {
	for _, seed := range []string{
		`{"group":"a","why":"b"}`, `{"why":"a","why":"b"}`, `{"wh\u0079":1}`, `[[[[]]]]`, `{"a":{"b":[{}]}}`, `"\\"`,
		`{"":{"":0}}`, "{\"\\\":0}", `{"A":1,"a":2}`, `1`, ` `,
		"{}\f", "{}\u00a0", "{} \t\r\n",
		"{\"a\":\"\xff\"}", `{"a":"\ud800"}`, `{"a":"\ud83d\ude00"}`, `{"a":"\\ud800"}`, `{"\ud800\ud800":0}`,
		`\`, `\ud800`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var loose, strict map[string]json.RawMessage
		err := server.Strict(text, &strict)
		wrong := json.Unmarshal(text, &loose)
		if err == nil && wrong != nil {
			t.Fatalf("accepted what json refuses: %v", wrong)
		}
		if err == nil && len(loose) != len(strict) {
			t.Fatalf("got %d members, want %d", len(strict), len(loose))
		}
		if err == nil {
			replaced(t, text)
		}
		if err != nil && job.KindOf(err) != job.Invalid {
			t.Fatalf("got kind %s", job.KindOf(err))
		}
		var h client.Hold
		_ = server.Strict(text, &h)
		var reports client.Reports
		_ = server.Strict(text, &reports)
	})
}

// TestTextsOfBodies: what is wrong with a body is stated in the terms of JSON.
func TestTextsOfBodies(t *testing.T) {
	for text, want := range map[string]string{
		``: "there is no value", ` `: "there is no value", `null`: "the value is null", " null\n": "the value is null",
		`{"kind":"a"`:                       "the text ends before the value",
		`{"kind":1}`:                        "kind must be a string, not number",
		`{"tags":{}}`:                       "tags must be an array, not object",
		`{"tags":[1]}`:                      "tags must be a string, not number",
		`{"priority":1.5}`:                  "priority must be a whole number of its range, not number 1.5",
		`{"priority":99999999999999999999}`: "priority must be a whole number of its range, not number 99999999999999999999",
		`{"due":"tomorrow"}`:                `tomorrow is no time as in RFC 3339, such as 2026-01-31T12:00:00Z`,
		`[]`:                                "the value must be an object, not array",
		`{"kind":"\ud800"}`:                 `\ud800 is half of a surrogate pair, at byte 9`,
		"{\"kind\":\"\xff\"}":               "the text is not UTF-8",
	} {
		var o api.Order
		err := server.Strict([]byte(text), &o)
		if got := fmt.Sprint(err); err == nil || !strings.HasSuffix(got, "JSON: "+want) {
			t.Errorf("%q: got %v, want %s", text, got, want)
		}
	}
}
