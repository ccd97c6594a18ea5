package servertest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
)

// Keyed makes a request that creates a job: one that is always the same, or another. The key is for its field `key`;
// it returns nil if there is no such field.
type Keyed func(other bool, key string) *http.Request

// CheckKeys holds every route that creates a job against the rule of idempotency keys: the header and the field are one
// key of at most [job.MostName] bytes, a request that is sent again gets the job of the first, with 200 in place of 201
// and the header Idempotency-Replayed, and a key that was used for something else is refused. Without a key each
// request makes a job, which is the control. The table is by route; new work must be in it.
func CheckKeys(t *testing.T, w *Harness, routes []server.Route, keyed map[string]Keyed) {
	for _, r := range routes {
		route := r.Method + " " + r.Pattern
		request := keyed[route]
		if request == nil {
			if r.NoReason == server.NewWork {
				t.Errorf("%s: the table of keys lacks it", route)
			}
			continue
		}
		t.Run(route, func(t *testing.T) {
			w := *w
			w.T = t
			checkKey(&w, route, request)
		})
	}
	if len(keyed) == 0 {
		t.Error("the table of keys is empty")
	}
}

// made is what is compared of an answer.
type made struct {
	status       int
	location, id string
	replayed     string
}

// again returns the answer to the same request under the same key.
func (m made) again() made {
	m.replayed = "true"
	if m.status == http.StatusCreated {
		m.status = http.StatusOK
	}
	return m
}

func checkKey(w *Harness, route string, request Keyed) {
	ask := func(other bool, header, field string) (made, string) {
		r := request(other, field)
		if header != "" {
			r.Header.Set("Idempotency-Key", header)
		}
		answer, text := w.Ask(r)
		var of struct{ ID, Token string }
		_ = json.Unmarshal([]byte(text), &of) // what is not of that form has no id
		id := cmp.Or(of.Token, of.ID)
		if answer.StatusCode == http.StatusSeeOther { // of a form: it leads to the job
			id = answer.Header.Get("Location")
		}
		h := answer.Header
		return made{answer.StatusCode, h.Get("Location"), id, h.Get("Idempotency-Replayed")}, text
	}
	key := strings.Repeat("k", job.MostName-len(route)) + route
	first, text := ask(false, key, "")
	if first.status >= 300 && first.status != http.StatusSeeOther || first.id == "" ||
		first.replayed != "" {
		w.T.Fatalf("got %+v: %s", first, text)
	}
	if got, text := ask(false, key, ""); got != first.again() {
		w.T.Errorf("sent again: got %+v, want %+v: %s", got, first.again(), text)
	}
	for _, header := range []string{"", "another " + route} {
		if got, text := ask(false, header, ""); got.status != first.status || got.id == first.id ||
			got.replayed != "" {
			w.T.Errorf("control with the key %q: got %+v: %s", header, got, text)
		}
	}
	refused := func(status int, kind job.ErrorKind, r *http.Request, headers ...string) {
		w.T.Helper()
		r.Header["Idempotency-Key"] = headers
		w.Problem(r, status, kind)
	}
	refused(http.StatusConflict, job.Conflict, request(true, ""), key)
	refused(http.StatusBadRequest, job.Invalid, request(false, ""), key+"k")
	refused(http.StatusBadRequest, job.Invalid, request(false, ""), "a\tb")
	refused(http.StatusBadRequest, job.Invalid, request(false, ""), key, "another")
	if other, text := ask(true, "other "+route, ""); other.status != first.status || other.id == first.id {
		w.T.Errorf("control: something else under another key: got %+v: %s", other, text)
	}
	for name, value := range map[string]any{"priority": 7, "note": "another", "name": "another", "dry_run": true} {
		r := request(false, "")
		if !with(w, r, name, value) {
			break
		}
		r.Header.Set("Idempotency-Key", key)
		if got, text := w.Ask(r); got.StatusCode != http.StatusConflict && got.StatusCode != http.StatusBadRequest {
			w.T.Errorf("the same with another %s: got %s: %s", name, got.Status, text)
		}
	}
	if request(false, key) == nil {
		return
	}
	if got, text := ask(false, "", key); got != first.again() {
		w.T.Errorf("in the field: got %+v, want %+v: %s", got, first.again(), text)
	}
	if got, text := ask(false, key, key); got != first.again() {
		w.T.Errorf("in header and field: got %+v, want %+v: %s", got, first.again(), text)
	}
	refused(http.StatusBadRequest, job.Invalid, request(false, key), "another")
}

// with sets a member of the JSON of a request; false: it is no JSON. A route that does not know the member answers 400.
func with(w *Harness, r *http.Request, name string, value any) bool {
	body := map[string]any{}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		w.T.Fatal(err)
	}
	if json.Unmarshal(text, &body) != nil {
		return false
	}
	body[name] = value
	if text, err = json.Marshal(body); err != nil {
		w.T.Fatal(err)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return true
}
