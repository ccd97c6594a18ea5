package orchestrator

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// An exit code that is not known is none; when a job began is the server's own time if its executor does not report.
func TestView(t *testing.T) {
	began := time.Date(2026, 11, 22, 11, 16, 0, 0, time.UTC)
	for _, exit := range []int{-1, 0, 3} {
		data, err := json.Marshal(compute.Data{
			Began: began, Notice: &compute.Notice{Standing: compute.Ended, Ending: &compute.Ending{Exit: exit}},
		})
		if err != nil {
			t.Fatal(err)
		}
		v, err := viewOf(&job.Job{
			Position: lifecycle.Position{State: compute.Failed}, Ended: true,
			Spec: []byte("{}"), Data: data, Entered: began.Add(time.Minute),
		})
		if err != nil || !v.Started.Equal(began) || v.Finished.IsZero() || v.Status != "Failed" {
			t.Errorf("got %+v, %v", v, err)
		}
		if known := v.ExitCode != nil; known != (exit >= 0) || known && *v.ExitCode != exit {
			t.Errorf("the code %d is reported as %v", exit, v.ExitCode)
		}
	}
}
