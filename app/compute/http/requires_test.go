package computehttp_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// TestComputeRequires orders jobs that require labels: those of the service and those of the order. The agent has
// another one: they stay in the queue, and the control without labels runs.
func TestComputeRequires(t *testing.T) {
	c := openPages(t, func(o *compute.Options, _ *options) {
		o.Services = append(slices.Clone(twoServices), compute.Service{Name: "cards", Requires: []string{"gpu"}})
		o.AgentLabels = map[string][]string{"puppet": {"zone=a"}}
	})
	free := c.order(client.ComputeOrder{}, "run.sh", "x")
	requires := func(j *client.ComputeJob, want ...string) {
		t.Helper()
		got, err := c.Client.ComputeJob(t.Context(), j.ID)
		if err != nil || !slices.Equal(got.Requires, want) || got.State != compute.Queued && len(want) > 0 {
			t.Errorf("%s requires %q in %s, want %q (%v)", got.ID, got.Requires, got.State, want, err)
		}
	}
	one := c.order(client.ComputeOrder{Requires: []string{"tape", "gpu"}, Key: "k"}, "run.sh", "x")
	of := c.order(client.ComputeOrder{Service: "cards"}, "run.sh", "x")
	both := c.order(client.ComputeOrder{Service: "cards", Requires: []string{"zone=b"}}, "run.sh", "x")
	c.runs(free.ID)
	requires(&free)
	requires(&one, "gpu", "tape")
	requires(&of, "gpu")
	requires(&both, "gpu", "zone=b")
	again := c.order(client.ComputeOrder{Requires: []string{"gpu", "tape"}, Key: "k"}, "run.sh", "x")
	if again.ID != one.ID {
		t.Errorf("the same labels in another order made %s beside %s", again.ID, one.ID)
	}
	key := http.Header{"Idempotency-Key": {"k"}}
	c.Problem(c.form(key, part{"order", "", `{"service":"wide","requires":["gpu"]}`}, part{"file", "run.sh", "x"}),
		http.StatusConflict, job.Conflict)
	for _, bad := range []string{`["two words"]`, `[""]`, `["a","b","c","d","e","f","g","h","i"]`} {
		c.Problem(c.form(nil, part{"order", "", `{"service":"wide","requires":` + bad + `}`},
			part{"file", "run.sh", "x"}), http.StatusBadRequest, job.Invalid)
	}
	c.Problem(c.form(nil, part{"order", "", `{"service":"cards","requires":["a","b","c","d","e","f","g","h"]}`},
		part{"file", "run.sh", "x"}), http.StatusBadRequest, job.Invalid) // with that of the service they are too many
	clone, err := c.Client.CloneCompute(t.Context(), both.ID, client.ComputeRepeat{})
	if err != nil {
		t.Fatal(err)
	}
	requires(&clone, "gpu", "zone=b")
	other, err := c.Client.CloneCompute(t.Context(), both.ID, client.ComputeRepeat{Requires: []string{"tape"}})
	if err != nil {
		t.Fatal(err)
	}
	requires(&other, "gpu", "tape")
	c.Problem(c.Request(http.MethodPost, "/api/v1/compute/jobs/"+string(one.ID)+"/retry", `{"requires":["a"]}`),
		http.StatusBadRequest, job.Invalid)
	answer, text := c.browse(c.pageForm(part{"service", "", "wide"}, part{"command", "", "true"},
		part{"requires", "", "gpu, zone=b"}))
	if answer.StatusCode != http.StatusSeeOther {
		t.Fatalf("the form: %s: %s", answer.Status, text)
	}
	path := answer.Header.Get("Location")
	requires(&client.ComputeJob{ID: job.ID(strings.TrimPrefix(path, "/jobs/"))}, "gpu", "zone=b")
	unlabelled := func(j *job.Job) bool { return j.Cause == "agents-labels" }
	if j := c.await(both.ID, unlabelled); !strings.Contains(j.Message, "no agent for cards with labels gpu, zone=b") {
		t.Errorf("it waits for %q", j.Message)
	}
	c.await(job.ID(strings.TrimPrefix(path, "/jobs/")), unlabelled)
	if text := c.page(path); !strings.Contains(text, "<bdi>gpu, zone=b</bdi>") ||
		!strings.Contains(text, "no agent for wide with labels gpu, zone=b") {
		t.Errorf("the page of the job: %s", text)
	}
	all, err := c.Client.ComputeAgents(t.Context())
	if err != nil || len(all) != 1 || !slices.Equal(all[0].Labels, []string{"zone=a"}) {
		t.Errorf("agents: %+v, %v", all, err)
	}
	if text := c.page("/compute"); !strings.Contains(text, ">zone=a</td>") {
		t.Errorf("the page of the agents: %s", text)
	}
}
