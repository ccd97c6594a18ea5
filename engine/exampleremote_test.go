package engine_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/enginetest"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// A remote worker runs the step of a claimed job as an engine would, and sends the report to the server. Package worker
// does that, with claims, renewals and repetitions.
func ExampleNewRemoteRun() {
	work := enginetest.Letters(map[lifecycle.State]engine.Step{
		"Sorting": func(_ context.Context, r *engine.Run) error {
			r.SetMessage("the address is wet")
			return engine.Retry(errors.New("cannot be read"))
		},
	})
	claimed := job.Job{ID: "let_1", Kind: "test.letter", Epoch: 3, Definition: work.Life.Hash()}
	claimed.State = "Sorting"
	run := engine.NewRemoteRun(context.Background(), &work, &claimed, nil,
		engine.RemoteOptions{Worker: "post office 2"})
	report, ok := run.Do()
	fmt.Println(ok, report.Job, report.Epoch, report.Retry, "-", *report.Message)
	// Output: true let_1 3 cannot be read - the address is wet
}
