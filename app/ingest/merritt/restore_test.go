package merritt

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/zookeeper/merritt"
)

// work are the phases of a job, in order.
var work = []lifecycle.State{record.Pending, record.Estimating, record.Provisioning, record.Downloading,
	record.Processing, record.Storing, record.Recording, record.Notify}

// undone returns the notes of the audit log about what was undone.
func (h *harness) undone() (notes []string) {
	h.Helper()
	log, err := h.store.Audit(h.Context(), 0, 1000)
	h.ok(err)
	for _, e := range log {
		if e.Event == "restore" {
			notes = append(notes, e.Note)
		}
	}
	return notes
}

// TestRetryInMerritt: a failed job that a program of Merritt moves to any phase before the one in which it failed is
// retried in the name of Merritt, and both sides continue in the phase of the failure.
func TestRetryInMerritt(t *testing.T) {
	h := newHarness(t)
	_, j := h.pending()
	id := h.node(j.ID)
	retries := 0
	for n, phase := range work {
		h.drive(j.ID, phase)
		for _, to := range work[:n+1] {
			h.fail(j.ID)
			before := h.get(j.ID)
			h.ok(h.program.Move(id, string(to), ""))
			h.pass()
			after := h.get(j.ID)
			retries++
			if after.State != phase || after.Retries != retries || h.program.Status("/jobs/"+id) != string(phase) {
				t.Fatalf("failed in %s, moved to %s: it is %s, %d retries, %s in Merritt; %v", phase, to, after.State,
					after.Retries, h.program.Status("/jobs/"+id), h.f.Findings())
			}
			history, err := h.store.History(t.Context(), j.ID, before.Seq, 0)
			h.ok(err)
			if e := history[0]; e.Event != record.Retry || e.By != lifecycle.Operator || e.Actor != merritt.Actor ||
				len(history) > 1 || to != phase && !strings.HasSuffix(e.Note, "Failed became "+string(to)) {
				t.Errorf("failed in %s, moved to %s: history %+v", phase, to, history)
			}
			entry := "/jobs/states/" + strings.ToLower(string(phase))
			if got := h.program.Names(entry); !slices.Equal(got, []string{"05-" + id}) {
				t.Errorf("entries %v", got)
			}
		}
	}
	if f := h.f.Findings(); len(f) > 0 {
		t.Errorf("findings: %v", f)
	}
	if got := h.undone(); len(got) > 0 {
		t.Errorf("something was undone: %q", got)
	}
}

// TestRetryInMerrittWhileLocked: a job that a worker of Merritt has locked is left alone, and is retried when the
// worker ends.
func TestRetryInMerrittWhileLocked(t *testing.T) {
	h := newHarness(t)
	_, j := h.pending()
	id := h.node(j.ID)
	h.drive(j.ID, record.Downloading)
	h.fail(j.ID)
	h.ok(h.program.Move(id, "Pending", ""))
	h.ok(h.program.Lock("/jobs/" + id))
	h.pass()
	f := h.f.Findings()
	if got := h.get(j.ID); got.State != record.Failed || len(f) != 1 ||
		!strings.Contains(f[0].Text, "it is retried when") {
		t.Fatalf("it is %s, findings %v", got.State, f)
	}
	h.ok(h.program.Move(id, "Estimating", "Success"))
	h.ok(h.program.Unlock("/jobs/" + id))
	h.pass()
	if got := h.get(j.ID); got.State != record.Downloading || h.program.Status("/jobs/"+id) != "Downloading" {
		t.Errorf("it is %s, %s in Merritt", got.State, h.program.Status("/jobs/"+id))
	}
}

// failed makes a batch in Failed with one failed job.
func (h *harness) failed() (batch, one job.Job) {
	h.Helper()
	b, j := h.pending()
	h.drive(j.ID, record.Estimating)
	h.fail(j.ID)
	h.do(b.ID, record.Report, lifecycle.Engine)
	h.fail(b.ID)
	return h.get(b.ID), h.get(j.ID)
}

// TestUpdateInMerrittWaits: an update of a batch that Merritt's admin tool requests while a retried job runs is not
// undone: it begins when the job has ended.
func TestUpdateInMerrittWaits(t *testing.T) {
	h := newHarness(t)
	b, j := h.failed()
	node := h.node(b.ID)
	h.do(j.ID, record.Retry, lifecycle.Operator)
	h.ok(h.program.Batch(node, "UpdateReporting", ""))
	h.pass()
	h.pass()
	f := h.f.Findings()
	if got := h.program.Status("/batches/" + node); got != "UpdateReporting" || len(f) != 1 {
		t.Fatalf("the batch is %s in Merritt, findings %v", got, f)
	}
	if got := h.get(b.ID); got.State != record.Failed {
		t.Fatalf("control: the batch with a job that runs is %s", got.State)
	}
	h.drive(j.ID, record.Completed)
	h.pass()
	if got := h.get(b.ID); got.State != record.UpdateReporting || len(h.f.Findings()) > 0 {
		t.Errorf("it is %s, findings %v", got.State, h.f.Findings())
	}
}

// TestRequeueInMerrittWaits: a job that Merritt's admin tool requeues while the report of its batch is written is not
// undone: it is retried when the report is written.
func TestRequeueInMerrittWaits(t *testing.T) {
	h := newHarness(t)
	b, j := h.pending()
	id := h.node(j.ID)
	h.drive(j.ID, record.Estimating)
	h.fail(j.ID)
	h.do(b.ID, record.Report, lifecycle.Engine)
	h.ok(h.program.Requeue(id, "Estimating"))
	h.pass()
	h.pass()
	if got := h.program.Status("/jobs/" + id); got != "Estimating" || h.get(j.ID).State != record.Failed {
		t.Fatalf("it is %s, %s in Merritt", h.get(j.ID).State, got)
	}
	h.fail(b.ID)
	h.pass()
	if got := h.get(j.ID); got.State != record.Estimating || len(h.f.Findings()) > 0 {
		t.Errorf("it is %s, findings %v", got.State, h.f.Findings())
	}
}

// TestUndoneReason: the audit log has why a change in Merritt was undone: no lifecycle has it, or the server refuses
// it.
func TestUndoneReason(t *testing.T) {
	h := newHarness(t)
	b, j := h.failed()
	h.do(j.ID, record.Delete, lifecycle.Operator)
	h.do(b.ID, record.Update, lifecycle.Operator)
	h.drive(b.ID, record.Completed)
	node := h.node(b.ID)
	h.ok(h.program.Batch(node, "UpdateReporting", "")) // the Ruby library checks nothing
	h.pass()
	if s, m := h.program.Status("/batches/"+node), h.program.Message("/batches/"+node); s != "Completed" ||
		m != merritt.Success {
		t.Errorf("the batch is %s: %q", s, m)
	}
	_, j = h.pending()
	id := h.node(j.ID)
	_, err := h.engine.Operator().Hold(t.Context(), job.Scope{Group: "maps"}, "op", "maintenance",
		h.engine.Clock().Now().Add(time.Hour))
	h.ok(err)
	h.do(j.ID, record.Hold, lifecycle.Operator)
	h.ok(h.program.Move(id, "Pending", ""))
	h.pass()
	h.pass()
	if s := h.program.Status("/jobs/" + id); s != "Held" {
		t.Errorf("the job was released into a hold: it is %s", s)
	}
	notes := h.undone()
	for _, want := range []string{"which no event of Completed leads to: it is Completed again",
		"which is refused: ", ": it is Held again"} {
		if !strings.Contains(strings.Join(notes, "\n"), want) {
			t.Errorf("no %q in %q", want, notes)
		}
	}
}

// TestUndoneHasMessage: what is undone has the message and the last successful state of before.
func TestUndoneHasMessage(t *testing.T) {
	h := newHarness(t)
	b, j := h.failed() // "broken"
	id, node := h.node(j.ID), h.node(b.ID)
	undone := func(what, path, state, message string, err error) {
		t.Helper()
		h.ok(err)
		h.pass()
		if s, m := h.program.Status(path), h.program.Message(path); s != state || m != message {
			t.Errorf("%s: it is %s, %q, want %s, %q; findings %v", what, s, m, state, message, h.f.Findings())
		}
	}
	undone("batch", "/batches/"+node, "Failed", "broken", h.program.Batch(node, "Reporting", ""))
	undone("job", "/jobs/"+id, "Failed", "broken", h.program.Move(id, "Held", ""))
	h.do(j.ID, record.Retry, lifecycle.Operator)
	undone("retried job", "/jobs/"+id, "Estimating", "", h.program.Move(id, "Pending", ""))
	if last := h.program.Last(id); last != "Pending" {
		t.Errorf("the last successful state is %s", last)
	}
	undone("job that Merritt failed", "/jobs/"+id, "Failed", "404", h.program.Move(id, "Failed", "404"))
	undone("job that Merritt failed", "/jobs/"+id, "Failed", "404", h.program.Move(id, "Held", ""))
	h.ok(h.program.Requeue(id, "Estimating"))
	h.pass()
	h.drive(j.ID, record.Provisioning)
	undone("job after a phase", "/jobs/"+id, "Provisioning", merritt.Success, h.program.Move(id, "Pending", ""))
}
