package server_test

import (
	"context"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
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
	s := server.New(server.Options{Engine: w.Engine, Flows: f})
	web := httptest.NewServer(s)
	c, err := client.New(web.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		c.Close()
		web.Close()
	})
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
