package computehttp_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
)

// TestOffersRetryWhereItIsAccepted: the page of a job and `why` offer to run it again exactly where the route does it.
// A job whose service is not configured any more is refused.
func TestOffersRetryWhereItIsAccepted(t *testing.T) {
	c := openPages(t, nil)
	gone, err := c.Server.Engine.Submit(t.Context(), engine.Order{Kind: compute.JobKind, Group: "gone", Owner: "ann",
		Spec: compute.Spec{User: "ann", Service: "gone"}})
	if err != nil {
		t.Fatal(err)
	}
	c.ended(gone.ID)
	failed := c.finish(c.order(client.ComputeOrder{}).ID, compute.Ending{Exit: 1, Cause: compute.CauseExit})
	for id, want := range map[job.ID]int{gone.ID: http.StatusConflict, failed.ID: http.StatusCreated} {
		offers := want == http.StatusCreated
		_, why := c.get("/api/v1/jobs/" + string(id) + "/why")
		if got := strings.Contains(why, "stagepost retry "+string(id)); got != offers {
			t.Errorf("why of %s offers a retry: %t: %s", id, got, why)
		}
		if got := strings.Contains(c.page("/jobs/"+string(id)), "/compute/jobs/"+string(id)+"/retry"); got != offers {
			t.Errorf("the page of %s offers a retry: %t", id, got)
		}
		answer, text := c.Ask(c.Request(http.MethodPost, "/api/v1/compute/jobs/"+string(id)+"/retry", "{}"))
		if answer.StatusCode != want {
			t.Errorf("a retry of %s: got %s: %s", id, answer.Status, text)
		}
	}
}
