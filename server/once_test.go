package server_test

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/openapi"
	"github.com/stagepost/stagepost/server/servertest"
)

// things makes things, which are counted. While hold is not nil, it reports on came and waits for hold.
type things struct {
	made       atomic.Int32
	refuses    atomic.Bool
	came, hold chan struct{}
}

func (s *things) make(w http.ResponseWriter, r *http.Request) error {
	b, err := server.Body[api.Replay](r, true)
	if err != nil {
		return err
	}
	if s.hold != nil {
		s.came <- struct{}{}
		<-s.hold
	}
	if s.refuses.Load() {
		return job.Errorf(job.Refused, "make", "", "not now")
	}
	b.Keys = []string{strconv.Itoa(int(s.made.Add(1)))}
	return server.ReplyAs(w, http.StatusCreated, b)
}

func (s *things) part(*servertest.Harness) server.Part {
	return server.Part{Routes: []server.Route{{Method: http.MethodPost, Pattern: "/api/v1/things/{id}",
		Who: server.Anyone, Doc: "Makes a thing.", Handle: s.make, NoReason: "a test",
		IO: openapi.IO{In: api.Replay{}, Out: api.Replay{}, Status: http.StatusCreated,
			Also: map[int]any{200: api.Replay{}}, Once: true}}}}
}

// TestOnce: a request under an idempotency key is carried out once. A repetition gets the answer of the first, with 200
// in place of 201; another request under the key is refused, and one that was refused is carried out again. The
// controls are requests without a key, under another key, and for another thing.
func TestOnce(t *testing.T) {
	s := &things{}
	w := servertest.Open(t, nil, nil, s.part)
	ask := func(key, path, note string) (*http.Response, string) {
		r := w.Request(http.MethodPost, "/api/v1/things/"+path, `{"keys":[],"note":"`+note+`"}`)
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		return w.Ask(r)
	}
	for _, c := range []struct {
		key, path, note string
		status          int
		made, replayed  string
	}{
		{"", "a", "x", 201, `["1"]`, ""},
		{"", "a", "x", 201, `["2"]`, ""},
		{"k", "a", "x", 201, `["3"]`, ""},
		{"k", "a", "x", 200, `["3"]`, "true"},
		{"k", "a", "y", 409, "used for another request", ""},
		{"k", "b", "x", 201, `["4"]`, ""},
		{"other", "a", "x", 201, `["5"]`, ""},
		{"k", "a", "x", 200, `["3"]`, "true"},
		{strings.Repeat("k", job.MostName+1), "a", "x", 400, "key", ""},
	} {
		answer, text := ask(c.key, c.path, c.note)
		if answer.StatusCode != c.status || !strings.Contains(text, c.made) ||
			answer.Header.Get("Idempotency-Replayed") != c.replayed {
			t.Errorf("%.10q for %s with %s: got %s %s", c.key, c.path, c.note, answer.Status, text)
		}
	}
	s.refuses.Store(true)
	if answer, text := ask("late", "a", "x"); answer.StatusCode != http.StatusConflict {
		t.Errorf("got %s %s", answer.Status, text)
	}
	s.refuses.Store(false)
	if answer, text := ask("late", "a", "x"); answer.StatusCode != http.StatusCreated {
		t.Errorf("after a refusal: got %s %s", answer.Status, text)
	}
}

// TestOnceElsewhere: a repetition gets the answer of the first request from another server of the directory, as after a
// restart, with its headers and status. The control is a server with another directory.
func TestOnceElsewhere(t *testing.T) {
	s, dir := &things{}, t.TempDir()
	ask := func(dir string) (*http.Response, string) {
		w := servertest.Open(t, func(o *server.Options) { o.Answers = dir }, nil, s.part)
		r := w.Request(http.MethodPost, "/api/v1/things/a", `{"keys":[],"note":"x"}`)
		r.Header.Set("Idempotency-Key", "k")
		return w.Ask(r)
	}
	first, text := ask(dir)
	again, same := ask(dir)
	if first.StatusCode != 201 || again.StatusCode != 200 || text != same || s.made.Load() != 1 ||
		again.Header.Get("Content-Type") != first.Header.Get("Content-Type") ||
		again.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%s %s, then %s %s", first.Status, text, again.Status, same)
	}
	if other, text := ask(t.TempDir()); other.StatusCode != 201 || s.made.Load() != 2 {
		t.Errorf("control: %s %s", other.Status, text)
	}
}

// TestOnceAtOnce: a repetition that comes while the first request is carried out waits for its answer.
func TestOnceAtOnce(t *testing.T) {
	s := &things{came: make(chan struct{}, 9), hold: make(chan struct{})}
	w := servertest.Open(t, nil, nil, s.part)
	var sent sync.WaitGroup
	statuses := make(chan int, 3)
	for range 3 {
		sent.Go(func() {
			r := w.Request(http.MethodPost, "/api/v1/things/a", `{"keys":[],"note":""}`)
			r.Header.Set("Idempotency-Key", "k")
			answer, _ := w.Ask(r)
			statuses <- answer.StatusCode
		})
	}
	<-s.came
	close(s.hold)
	sent.Wait()
	sum := 0
	for range 3 {
		sum += <-statuses
	}
	if made := s.made.Load(); made != 1 || sum != 201+200+200 {
		t.Errorf("%d things were made, the statuses have the sum %d", made, sum)
	}
}
