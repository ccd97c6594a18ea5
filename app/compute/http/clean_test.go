package computehttp_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/token"
)

// TestComputeClean: the files of a job that has ended go on request, and its record stays; one that runs keeps them and
// the answer reports what can be done.
func TestComputeClean(t *testing.T) {
	c := openCompute(t, nil)
	j := c.order(client.ComputeOrder{})
	path := "/api/v1/compute/jobs/" + string(j.ID)
	c.runs(j.ID)
	can := func(want bool) {
		t.Helper()
		now, err := c.Client.ComputeJob(t.Context(), j.ID)
		if err != nil || slices.Contains(now.Can["owner"], compute.Clean) != want ||
			slices.Contains(now.Can["operator"], compute.Clean) != want {
			t.Errorf("it can %v, %v; clean: want %t", now.Can, err, want)
		}
	}
	can(false)
	p := c.Problem(c.Request(http.MethodPost, path+"/clean", `{}`), http.StatusConflict, job.Refused)
	if !strings.Contains(p.Detail, "it has not ended; cancel it first") || !slices.Contains(p.Can, "cancel") {
		t.Errorf("got %+v", p)
	}
	done := c.finish(j.ID, compute.Ending{}, "x", "y")
	c.Problem(c.Request(http.MethodPost, path+"/clean", `{"version":1}`), http.StatusConflict, job.Conflict)
	c.get(path + "/results")
	can(true)
	got, err := c.Client.CleanCompute(t.Context(), j.ID, client.Act{Actor: "ann", Note: "done with it"})
	if err != nil || got.State != compute.Cleaned || got.Results != nil || !got.Expires.IsZero() {
		t.Fatalf("got %+v, %v", got, err)
	}
	c.Problem(c.Request(http.MethodGet, path+"/results", ""), http.StatusGone, job.Gone)
	can(false)
	again, err := c.Client.CleanCompute(t.Context(), j.ID, client.Act{})
	if err != nil || again.Version != got.Version || again.Version != done.Version+1 {
		t.Errorf("a second time: %+v, %v", again, err)
	}
	h, err := c.Client.History(t.Context(), j.ID, 0, 0)
	if last := h[len(h)-1]; err != nil || last.Actor != "ann" || !strings.Contains(last.Note, "done with it") {
		t.Errorf("got %+v, %v", last, err)
	}
}

// TestComputeDelete: DELETE cancels a job and keeps what it left, also when it is sent again; clean removes the
// files. Another's job is as unknown as none.
func TestComputeDelete(t *testing.T) {
	c, with := guarded(t, token.Entry{Role: identity.Depositor, Owner: "ann"},
		token.Entry{Role: identity.Depositor, Owner: "bea"})
	as := func(owner, method, path, body string) *http.Request {
		return with(owner, c.Request(method, path, body))
	}
	j := c.sent(as("ann", http.MethodPost, "/api/v1/compute/jobs", `{"service":"wide","command":["true"]}`),
		http.StatusCreated)
	path := "/api/v1/compute/jobs/" + string(j.ID)
	state := func() job.Job {
		t.Helper()
		now, err := c.Store().Get(t.Context(), j.ID)
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	if _, err := c.Await(t.Context(), j.ID, func(j *job.Job) bool { return j.State == compute.Running }); err != nil {
		t.Fatal(err)
	}
	c.Problem(as("bea", http.MethodDelete, path, ""), http.StatusNotFound, job.NotFound)
	c.sent(as("ann", http.MethodDelete, path, ""), http.StatusOK)
	if _, err := c.Await(t.Context(), j.ID, func(j *job.Job) bool { return j.Ended }); err != nil {
		t.Fatal(err)
	}
	killed := state()
	if killed.State != compute.Killed {
		t.Fatalf("it is %s", killed.State)
	}
	for _, try := range []*http.Request{as("bea", http.MethodDelete, path, ""),
		as("bea", http.MethodPost, path+"/clean", "{}")} {
		c.Problem(try, http.StatusNotFound, job.NotFound)
	}
	c.Problem(as("ann", http.MethodPost, path+"/clean", `{"version":1}`), http.StatusConflict, job.Conflict)
	if now := state(); now.Version != killed.Version {
		t.Errorf("what was refused changed it: %+v", now)
	}
	if got := c.sent(as("ann", http.MethodDelete, path, ""), http.StatusOK); got.State != compute.Killed ||
		state().Version != killed.Version {
		t.Errorf("sent again it made %+v", got)
	}
	if got := c.sent(as("ann", http.MethodPost, path+"/clean", `{"note":"enough"}`),
		http.StatusOK); got.State != compute.Cleaned {
		t.Errorf("got %+v", got)
	}
	history, err := c.Store().History(t.Context(), j.ID, 0, 0)
	if last := history[len(history)-1]; err != nil || last.Note != "ann (owner) requested it early: enough" {
		t.Errorf("got %+v, %v", last, err)
	}
}
