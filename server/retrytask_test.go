package server_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/servertest"
)

// failedTask makes a job that the worker coach has, with a task that failed and one that did not.
func failedTask(w *servertest.Harness, name string) client.Leased {
	w.T.Helper()
	w.Post(engine.Order{})
	claimed := claimJobs(w, "coach", 1)[0]
	if _, err := w.Client.Update(w.T.Context(), api.Reports{Worker: "coach", Reports: []api.Report{{Job: claimed.ID,
		Epoch: claimed.Epoch, Tasks: []job.Task{{Name: name, Kind: "test.part", State: "Failed", Attempts: 1},
			{Name: "fold", Kind: "test.part", State: "Finished"}}}}}); err != nil {
		w.T.Fatal(err)
	}
	return claimed
}

// TestRetryTask: the list of tasks states which may be tried again. One of them is, under the claim of the worker, with
// an entry of the audit log; what the rule of the kind refuses, an old version and unknown names are not.
func TestRetryTask(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	claimed := failedTask(w, "a/seal")
	id, epoch := claimed.ID, claimed.Epoch
	_, text := w.Ask(w.Request(http.MethodGet, "/api/v1/jobs/"+string(id)+"/tasks", ""))
	if !strings.Contains(text, `"retry":["a/seal"]`) {
		t.Errorf("got %s", text)
	}
	before, err := w.Client.Job(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		of   client.TaskRetry
		want job.ErrorKind
	}{
		"as its owner": {client.TaskRetry{Task: "a/seal", As: "owner"}, job.Refused},
		"not failed":   {client.TaskRetry{Task: "fold"}, job.Refused},
		"unknown":      {client.TaskRetry{Task: "stamp"}, job.NotFound},
		"no name":      {client.TaskRetry{}, job.Invalid},
		"no actor":     {client.TaskRetry{Task: "a/seal"}, job.Invalid},
		"old version":  {client.TaskRetry{Task: "a/seal", Version: before.Version + 1}, job.Conflict},
	} {
		if _, err := w.Client.RetryTask(t.Context(), id, c.of); job.KindOf(err) != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
	if _, err := w.Client.RetryTask(t.Context(), "let_nobody", client.TaskRetry{Task: "fold"}); job.KindOf(err) !=
		job.NotFound {
		t.Errorf("an unknown job: got %v", err)
	}
	j, err := w.Client.RetryTask(t.Context(), id, client.TaskRetry{Task: "a/seal", Actor: "ann", Note: "wax came",
		Version: before.Version})
	if err != nil || j.Worker != "coach" || j.Epoch != epoch || j.State != "Posted" {
		t.Errorf("got %+v, %v", j, err)
	}
	tasks, err := w.Client.Tasks(t.Context(), id)
	if err != nil || len(tasks) != 2 || tasks[0].State != "Created" || tasks[0].Attempts != 1 {
		t.Errorf("got %+v, %v", tasks, err)
	}
	entries, err := w.Store().Audit(t.Context(), 0, 100)
	if err != nil || !slices.ContainsFunc(entries, func(e job.Audit) bool {
		return e.Event == "retry-task" && e.Object == string(id)+" a/seal" && e.Actor == "ann" && e.Note == "wax came"
	}) {
		t.Errorf("the audit log has %+v, %v", entries, err)
	}
}
