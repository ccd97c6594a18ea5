package flowhttp_test

import (
	"context"
	"sync/atomic"
	"testing"

	flowhttp "github.com/stagepost/stagepost/app/flowfile/http"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
)

// counted counts how often flows are read.
type counted struct {
	flowing
	reads atomic.Int32
}

func (f *counted) View(ctx context.Context, store job.Store, id job.ID) (*durable.View, error) {
	f.reads.Add(1)
	return f.flowing.View(ctx, store, id)
}

// TestSignalReadsNoTasks: what a signal costs does not depend on how large its flow is. The control reads it once.
func TestSignalReadsNoTasks(t *testing.T) {
	w := openFlows(t, nil)
	id := w.submit(client.FlowOrder{File: waits}).ID
	w.until(id, waiting)
	flows, err := durable.New(durable.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := &counted{flowing: flowing{flows}}
	c := servertest.Serve(t, server.Options{Engine: w.Engine}, func(w *servertest.Harness) server.Part {
		return flowhttp.Part(w.Server, f)
	}).Client
	if _, err := c.SignalFlow(t.Context(), id, client.FlowSignal{Name: "other", Early: true}); err != nil {
		t.Fatal(err)
	}
	if n := f.reads.Load(); n != 0 {
		t.Errorf("a signal reads the flow %d times", n)
	}
	if _, err := c.Flow(t.Context(), id, false); err != nil || f.reads.Load() != 1 {
		t.Errorf("%d readings, %v", f.reads.Load(), err)
	}
	if _, err := c.SignalFlow(t.Context(), id, client.FlowSignal{Name: "approved"}); err != nil {
		t.Fatal(err)
	}
	w.until(id, ended)
}
