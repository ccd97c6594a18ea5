package merritt

import (
	"testing"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/job"
)

// A batch that is submitted to Stagepost is finished by it, and shown in Merritt's nodes.
func TestOwnBatch(t *testing.T) {
	h := newHarness(t)
	h.run()
	b := h.submit("hello")
	b = h.ended(b.ID)
	if b.State != record.Completed {
		t.Fatalf("it is %s: %s", b.State, b.Message)
	}
	node := h.node(b.ID)
	if s := h.program.Status("/batches/" + node); s != "Completed" {
		t.Errorf("%s is %q in Merritt", node, s)
	}
	page, err := h.store.List(t.Context(), job.Query{Parent: b.ID})
	h.ok(err)
	id := h.node(page.Jobs[0].ID)
	if s := h.program.Status("/jobs/" + id); s != "Completed" {
		t.Errorf("%s is %q in Merritt: %s", id, s, h.program.Text("/jobs/"+id+"/status"))
	}
	t.Log(h.program.Text("/jobs/"+id+"/status"), h.program.Text("/jobs/"+id+"/configuration"),
		h.program.Text("/jobs/"+id+"/identifiers"))
}
