package ingest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine/enginetest"
	"github.com/stagepost/stagepost/lifecycle"
)

func linesOf(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }

const batchTable = `
Pending begin Processing worker
Pending hold Held worker,operator
Pending fail Failed worker
Pending cancel Deleted operator,owner
Held release Pending operator
Held delete Deleted timer,operator
Processing report Reporting engine
Processing fail Failed worker,timer
Reporting finish Completed worker
Reporting fail Failed worker,timer
UpdateReporting finish Completed worker
UpdateReporting fail Failed worker,timer
Completed delete Deleted timer,operator
Failed update UpdateReporting operator
Failed delete Deleted timer,operator
`

const jobTable = `
Pending begin Estimating worker
Pending hold Held worker,operator
Pending fail Failed worker,timer
Held release Pending operator
Held delete Deleted timer,operator
Estimating next Provisioning worker
Estimating fail Failed worker,timer
Estimating stop Failed operator
Provisioning next Downloading worker
Provisioning fail Failed worker,timer
Provisioning stop Failed operator
Downloading next Processing worker
Downloading fail Failed worker,timer
Downloading stop Failed operator
Processing next Storing worker
Processing fail Failed worker,timer
Processing stop Failed operator
Storing next Recording worker
Storing fail Failed worker,timer
Storing stop Failed operator
Recording next Notify worker
Recording fail Failed worker,timer
Recording stop Failed operator
Notify finish Completed worker
Notify fail Failed worker,timer
Notify stop Failed operator
Completed delete Deleted timer,operator
Failed retry [Pending Estimating Provisioning Downloading Processing Storing Recording Notify] operator,owner
Failed delete Deleted timer,operator
`

const accessTable = `
Pending begin Processing worker
Processing finish Completed worker
Processing fail Failed worker,timer
Completed delete Deleted timer,operator
Failed retry Processing operator,owner
Failed requeue Pending operator
Failed delete Deleted timer,operator
`

// TestTablesHaveExactlyTheseTransitions compares the tables with a list written down apart from them.
func TestTablesHaveExactlyTheseTransitions(t *testing.T) {
	for _, c := range []struct {
		table *lifecycle.Table
		want  string
	}{{record.BatchLife, batchTable}, {record.JobLife, jobTable}, {record.AccessLife, accessTable}} {
		if diff := cmp.Diff(linesOf(c.want), enginetest.TransitionLines(c.table)); diff != "" {
			t.Errorf("%s (-law +table):\n%s", c.table.Name(), diff)
		}
	}
}

// TestJobGoesBackToThePhaseItFailedIn fails a job in each phase and retries it.
func TestJobGoesBackToThePhaseItFailedIn(t *testing.T) {
	p := record.JobLife.Start()
	for {
		failed, err := record.JobLife.Next(p, record.Fail, lifecycle.Timer)
		if err != nil {
			t.Fatal(err)
		}
		again, err := record.JobLife.Next(failed, record.Retry, lifecycle.Owner)
		if err != nil || again.State != p.State || again.Outcome != lifecycle.None || again.LastOK != p.LastOK {
			t.Fatalf("failed in %+v, retried to %+v, %v", p, again, err)
		}
		e, ok := record.JobLife.Choose(again, lifecycle.Pass, lifecycle.Worker)
		if !ok {
			t.Fatalf("no way on from %s", again.State)
		}
		if p, err = record.JobLife.Next(again, e, lifecycle.Worker); err != nil {
			t.Fatal(err)
		}
		if record.JobLife.Ended(p.State) {
			break
		}
	}
	if p.State != record.Completed || p.LastOK != record.Notify || p.Outcome != lifecycle.OK {
		t.Errorf("ended at %+v, want Completed after Notify with outcome ok", p)
	}
}

// TestBatchIsUpdatedAfterFailure: an update empties the outcome, so that the batch can still complete.
func TestBatchIsUpdatedAfterFailure(t *testing.T) {
	p, err := record.BatchLife.Replay([]lifecycle.Taken{
		{Event: record.Begin, By: lifecycle.Worker}, {Event: record.Report, By: lifecycle.Engine}, {Event: record.Fail,
			By: lifecycle.Worker},
		{Event: record.Update, By: lifecycle.Operator}, {Event: record.Finish, By: lifecycle.Worker},
	})
	if err != nil || p.State != record.Completed || p.Outcome != lifecycle.OK {
		t.Errorf("ended at %+v, %v; want Completed with outcome ok", p, err)
	}
	if _, err := record.BatchLife.Replay([]lifecycle.Taken{{Event: record.Hold, By: lifecycle.Worker},
		{Event: record.Begin, By: lifecycle.Worker}}); err == nil {
		t.Error("a held batch began without being released")
	}
}

// TestWithdrawnIsCancelled: what is deleted before it has an outcome counts as cancelled, what had one keeps it.
func TestWithdrawnIsCancelled(t *testing.T) {
	p, err := record.BatchLife.Next(record.BatchLife.Start(), record.Cancel, lifecycle.Owner)
	if err != nil || p.Outcome != lifecycle.Cancelled {
		t.Errorf("a withdrawn batch: %+v, %v", p, err)
	}
	p, err = record.JobLife.Next(lifecycle.Position{State: record.Failed, Outcome: lifecycle.Failed}, record.Delete,
		lifecycle.Timer)
	if err != nil || p.Outcome != lifecycle.Failed {
		t.Errorf("a deleted failure: %+v, %v", p, err)
	}
}

// TestDeletesFitAPerson: why offers delete to people with the sentence of the transition, so it states the effect. That
// the retention is over is the reason of the timer alone.
func TestDeletesFitAPerson(t *testing.T) {
	checked := 0
	for _, table := range []*lifecycle.Table{record.BatchLife, record.JobLife, record.AccessLife} {
		for _, stage := range table.Stages() {
			for _, a := range stage.Transitions {
				if a.Event != record.Delete {
					continue
				}
				if checked++; strings.Contains(a.Doc, "retention is over") {
					t.Errorf("%s: delete of %s: %q", table.Name(), stage.State, a.Doc)
				}
			}
		}
	}
	if checked < 7 {
		t.Errorf("%d transitions were checked", checked)
	}
}
