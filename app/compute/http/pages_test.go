package computehttp_test

import (
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	computehttp "github.com/stagepost/stagepost/app/compute/http"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestPagesOfEveryList: see [servertest.CheckPages].
func TestPagesOfEveryList(t *testing.T) {
	c := openCompute(t, nil)
	var last client.ComputeJob
	for range 5 {
		last = c.order(client.ComputeOrder{}, "run.sh", "x", "a", "1", "b", "2", "c", "3", "d", "4")
		if _, err := c.Engine.Await(t.Context(), last.ID, func(j *job.Job) bool {
			return j.State == compute.Running && j.Message != "" // from now on it does not change
		}); err != nil {
			t.Fatal(err)
		}
	}
	routes := computehttp.Part(c.Server, computehttp.Options{}).Routes
	servertest.CheckPages(t, c.Harness, routes, map[string]servertest.Paged{
		"GET /compute":             {Why: "it passes the pages of the API on, which are tested here"},
		"GET /api/v1/compute/jobs": {Path: "/api/v1/compute/jobs", List: "jobs"},
		"GET /api/v1/compute/jobs/{id}/files": {
			Path: "/api/v1/compute/jobs/" + string(last.ID) + "/files", List: "files",
		},
	})
	servertest.CheckFilters(t, c.Harness, routes, map[string]string{
		"GET /api/v1/compute/jobs/{id}/files": "/api/v1/compute/jobs/" + string(last.ID) + "/files",
	}, map[string]string{"state": "running", "service": "small"})
}
