package flowhttp_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/flowfile"
	flowhttp "github.com/stagepost/stagepost/app/flowfile/http"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/web"
)

// flowing is the application: flows of files that may do nothing but wait, and those of a test's factories.
type flowing struct{ *durable.Flows }

func (flowing) File(text []byte) (*flowfile.File, error) {
	return flowfile.Parse(text, flowfile.Options{})
}

// harness is a server that runs flows.
type harness struct{ *servertest.Harness }

// openFlows is a server whose engine runs flows, and has letters that no one carries.
func openFlows(t *testing.T, factories map[string]durable.Factory) *harness {
	t.Helper()
	return openFlowsIn(t, mem.New(), factories)
}

func openFlowsIn(t *testing.T, store job.Store, factories map[string]durable.Factory) *harness {
	t.Helper()
	all := map[string]durable.Factory{flowfile.FactoryName: flowfile.Factory(flowfile.Options{})}
	for name, f := range factories {
		all[name] = f
	}
	flows, err := durable.New(durable.Options{Factories: all, Slots: 4, Blobs: durable.Dir(t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(store, []engine.Work{flows.Work(),
		{Life: servertest.Letter, Prefix: "let", Outside: true}}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	flows.Bind(e)
	w := &harness{servertest.Serve(t, server.Options{Engine: e, MaxBody: 4 << 20},
		func(w *servertest.Harness) server.Part { return web.Part(w.Server) },
		func(w *servertest.Harness) server.Part {
			return flowhttp.Part(w.Server, flowing{flows})
		})}
	w.Run()
	return w
}

// submit creates a flow that must be taken.
func (w *harness) submit(o client.FlowOrder) client.Job {
	w.T.Helper()
	j, err := w.Client.SubmitFlow(w.T.Context(), o)
	if err != nil {
		w.T.Fatal(err)
	}
	return j
}

// until waits for a flow to come to a state in which no one works on it.
func (w *harness) until(id job.ID, is func(*job.Job) bool) job.Job {
	w.T.Helper()
	j, err := w.Await(w.T.Context(), id, func(j *job.Job) bool { return !j.Claimed() && is(j) })
	if err != nil {
		w.T.Fatal(err)
	}
	return j
}

func ended(j *job.Job) bool     { return j.Ended }
func suspended(j *job.Job) bool { return j.State == flow.Suspended }
func waiting(j *job.Job) bool   { return j.Cause == durable.BlockSignal }

// waits is a file whose flow waits for a signal after a task.
const waits = `
flow: approval
inputs: {who: ann}
linear:
  - task: before
    sleep: 1ms
  - task: approve
    wait: approved
    provides: answer
  - task: after
    sleep: 1ms
    requires: [who]
`

// gives makes a flow of one task that gives its arguments.
func gives(args json.RawMessage) (flow.Item, error) {
	var text string
	if err := json.Unmarshal(args, &text); err != nil {
		return nil, err
	}
	return flow.Linear("gives", &flow.Task{Name: "give", Result: flow.One("given"),
		Execute: func(context.Context, *flow.Call) (any, error) { return text, nil }}), nil
}

// fails makes a flow whose second task fails.
func fails(json.RawMessage) (flow.Item, error) {
	nothing := func(context.Context, *flow.Call) (any, error) { return nil, nil }
	return flow.Linear("fails", &flow.Task{Name: "one", Execute: nothing, Revert: nothing}, &flow.Task{
		Name: "two", Execute: func(context.Context, *flow.Call) (any, error) {
			return nil, job.Errorf(job.Invalid, "x", "", "no paper")
		},
	}), nil
}

// long is a text that each view cuts.
var long = strings.Repeat("ä", 10_000)
