package computehttp_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// TestDrainAgent: an operator drains an agent by its name and takes it back; the list of agents shows who did. In the
// middle a job waits, and reports why; before and after, jobs run.
func TestDrainAgent(t *testing.T) {
	c := openCompute(t, nil)
	drained := func() *client.ComputeDrain {
		t.Helper()
		all, err := c.Client.ComputeAgents(t.Context())
		if err != nil || len(all) != 1 || all[0].Draining != (all[0].Drain != nil) {
			t.Fatalf("agents: %+v, %v", all, err)
		}
		return all[0].Drain
	}
	c.runs(c.order(client.ComputeOrder{}).ID)
	now, err := c.Client.DrainComputeAgent(t.Context(), "puppet", true, client.Act{Actor: "op", Note: "new disks"})
	if err != nil || !now.Draining || now.Jobs != 1 {
		t.Fatalf("drain: %+v, %v", now, err)
	}
	if d := drained(); d == nil || d.Who != "op" || d.Why != "new disks" || d.Since.IsZero() {
		t.Errorf("drained: %+v", d)
	}
	j := c.order(client.ComputeOrder{})
	c.await(j.ID, func(j *job.Job) bool { return strings.Contains(j.Message, "op drains it (new disks)") })
	if now, err = c.Client.DrainComputeAgent(t.Context(), "puppet", false, client.Act{}); err != nil || now.Draining ||
		drained() != nil {
		t.Errorf("resume: %+v, %v", now, err)
	}
	c.runs(j.ID)
	c.Problem(c.Request(http.MethodPost, "/api/v1/compute/agents/nobody/drain", `{}`), http.StatusNotFound,
		job.NotFound)
	_, text := c.get("/api/v1/audit")
	for _, part := range []string{`"agent-drain"`, `"new disks"`, `"agent-resume"`, `"puppet"`} {
		if strings.Count(text, part) == 0 || strings.Contains(text, "nobody") {
			t.Errorf("the audit list lacks %s, or has what came to nothing: %s", part, text)
		}
	}
}

// TestLeftOutOfResults stands in the JSON of a job with counts by reason and the first names.
func TestLeftOutOfResults(t *testing.T) {
	c := openCompute(t, nil)
	j := c.order(client.ComputeOrder{})
	p := c.runs(j.ID)
	p.leave(compute.LeftOut{Skipped: 2, Reasons: map[string]int{"fifo": 2},
		Names: []compute.LeftFile{{Name: "pipe", Why: "a FIFO"}}})
	p.end(compute.Ending{})
	done := c.ended(j.ID)
	r := done.Results
	if r == nil || r.Skipped != 2 || r.Reasons["fifo"] != 2 || len(r.Names) != 1 || r.Names[0].Name != "pipe" ||
		!strings.Contains(r.Sentence, "2 pipes") || !strings.Contains(done.Message, "2 pipes") {
		t.Errorf("got %+v, message %q", r, done.Message)
	}
	_, text := c.get("/api/v1/compute/jobs/" + string(j.ID))
	if !strings.Contains(text, `"skipped":2,"skipped_reasons":{"fifo":2},"skipped_files":[{"name":"pipe","why":"a FIFO"}]`) {
		t.Errorf("got %s", text)
	}
}
