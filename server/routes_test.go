package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
)

func TestEveryRoute(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	servertest.CheckRoutes(t, w, w.Server.All())
}

func TestHosts(t *testing.T) {
	w := servertest.Open(t, func(o *server.Options) { o.Hosts = []string{"archive.example"} }, nil)
	for host, ok := range map[string]bool{
		"localhost": true, "LOCALHOST:80": true, "127.0.0.1": true, "127.9.9.9:1": true, "[::1]:7433": true,
		"archive.example": true, "localhost.": true,
		"evil.example": false, "127.0.0.1.evil.example": false, "10.0.0.1": false, "0.0.0.0": false, "[::]": false,
		"localhost.evil.example": false,
		"2130706433":             false, "[::ffff:10.0.0.1]": false,
	} {
		r := w.Request(http.MethodGet, "/healthz", "")
		r.Host = host
		answer, _ := w.Ask(r)
		if got := answer.StatusCode == http.StatusOK; got != ok {
			t.Errorf("%s: got %s, want it let in: %v", host, answer.Status, ok)
		}
	}
}

func TestNoRoute(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	w.Problem(w.Request(http.MethodGet, "/api/v1/nothing", ""), http.StatusNotFound, job.NotFound)
	w.Problem(w.Request(http.MethodGet, "/debug/pprof/", ""), http.StatusNotFound, job.NotFound)
	w.Problem(w.Request(http.MethodPut, "/api/v1/jobs", `{}`), http.StatusMethodNotAllowed, job.Invalid)
	r := w.Request(http.MethodDelete, "/api/v1/counts", "")
	answer, _ := w.Ask(r)
	if got := answer.Header.Get("Allow"); got != "GET, HEAD" {
		t.Errorf("Allow is %q", got)
	}
	servertest.CheckHeaders(t, answer)
}

// TestProblems holds each kind of refusal against its status and its members.
func TestProblems(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	j := w.Post(engine.Order{})
	path := "/api/v1/jobs/" + string(j.ID)
	p := w.Problem(w.Request(http.MethodPost, path+"/release", `{}`), http.StatusConflict, job.Refused)
	if p.State != "Posted" || p.Event != "release" || p.By != "operator" || p.Rule == "" || len(p.Can) != 1 ||
		p.Can[0] != "hold" || p.Job != j.ID {
		t.Errorf("got %+v", p)
	}
	p = w.Problem(w.Request(http.MethodPost, path+"/events/hold", `{"as":"owner"}`), http.StatusConflict, job.Refused)
	if p.By != "owner" || len(p.Can) != 0 {
		t.Errorf("got %+v", p)
	}
	w.Problem(w.Request(http.MethodPost, path+"/hold", `{"version":99}`), http.StatusConflict, job.Conflict)
	w.Problem(w.Request(http.MethodPost, path+"/hold", `{"as":"engine"}`), http.StatusBadRequest, job.Invalid)
	w.Problem(w.Request(http.MethodPut, path+"/priority", `{"priority":100}`), http.StatusBadRequest, job.Invalid)
	w.Problem(w.Request(http.MethodPut, "/api/v1/holds", `{"why":"x"}`), http.StatusBadRequest, job.Invalid)
	w.Problem(w.Request(http.MethodPut, "/api/v1/holds", `{"group":"x"}`), http.StatusBadRequest, job.Invalid)
	w.Problem(w.Request(http.MethodDelete, "/api/v1/holds?group=x", ""), http.StatusNotFound, job.NotFound)
	w.Problem(w.Request(http.MethodGet, "/api/v1/jobs?limit=1001", ""), http.StatusBadRequest, job.Invalid)
	w.Problem(w.Request(http.MethodGet, "/api/v1/jobs?after=garbage", ""), http.StatusBadRequest, job.Invalid)
	w.Problem(w.Request(http.MethodGet, path+"/why?at=yesterday", ""), http.StatusBadRequest, job.Invalid)

	if _, err := w.Client.Do(t.Context(), j.ID, "hold", client.Act{Note: "x"}); err != nil {
		t.Fatal(err)
	}
	p = w.Problem(w.Request(http.MethodPost, path+"/delete", `{}`), http.StatusConflict, job.Refused)
	if len(p.Can) != 2 || p.State != "Held" { // refused by a rule of the application
		t.Errorf("got %+v", p)
	}
	got, err := w.Client.Do(t.Context(), j.ID, "delete", client.Act{Confirm: true})
	if err != nil || !got.Gone {
		t.Errorf("got %+v, %v", got.Position, err)
	}
}

// TestErrorsComeBack holds the client to it: kinds and legal moves survive the wire.
func TestErrorsComeBack(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	j := w.Post(engine.Order{})
	_, err := w.Client.Do(t.Context(), j.ID, "retry", client.Act{As: "owner"})
	p := client.ProblemOf(err)
	if job.KindOf(err) != job.Refused || p == nil || p.State != "Posted" {
		t.Errorf("got %v", err)
	}
	if want := string(j.ID) + ": a Posted job cannot be retried (can: nothing)"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	if _, err := w.Client.Job(t.Context(), "let_nobody"); job.KindOf(err) != job.NotFound {
		t.Errorf("got %v", err)
	}
}

func TestPanicIsAProblem(t *testing.T) {
	w := servertest.Open(t, func(o *server.Options) {
		o.Alive = func() error { panic("a defect") }
	}, nil)
	p := w.Problem(w.Request(http.MethodGet, "/healthz", ""), http.StatusInternalServerError, job.Internal)
	if strings.Contains(p.Detail, "defect") {
		t.Errorf("the caller learns %q", p.Detail)
	}
	answer, _ := w.Ask(w.Request(http.MethodGet, "/", ""))
	servertest.CheckHeaders(t, answer)
}
