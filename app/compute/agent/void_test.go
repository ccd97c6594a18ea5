package agent

import (
	"context"
	"io"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/sandbox"
)

// A parcel that comes after its job was abandoned is not run, whichever message the server sent and whether the agent
// was started anew in between. Another attempt is.
func TestGivenUpBeforeItCame(t *testing.T) {
	for name, give := range map[string]func(compute.Executor, context.Context, compute.Handle) error{
		"kill": compute.Executor.Kill, "forget": compute.Executor.Forget,
	} {
		t.Run(name, func(t *testing.T) {
			w := newHarness(t, writes(0), nil)
			for _, far := range []bool{false, true} {
				x := w.app.Local()
				if far {
					x, _ = w.remote(HandlerOptions{})
				}
				k := ticket()
				h := handle(k)
				h.Instance = w.app.Instance()
				for range 2 { // it may be reported again
					if err := give(x, t.Context(), h); err != nil {
						t.Fatal(err)
					}
				}
				if !far {
					w.stop()
					w.start(nil)
					x = w.app.Local()
				}
				n := w.submit(x, parcel(k, "echo"))
				if n.Standing != compute.Ended || n.Ending == nil || n.Ending.Cause != compute.CauseKilled ||
					n.HasResult {
					t.Errorf("got %+v, %+v", n, n.Ending)
				}
				if got, err := x.Query(t.Context(), h); err != nil || got.Standing != compute.Ended {
					t.Errorf("query: %+v, %v", got, err)
				}
				if got := w.runner.count(); got != 0 {
					t.Fatalf("%d runs", got)
				}
			}
			again := ticket()
			w.submit(w.app, parcel(again, "echo"))
			if w.end(again); w.runner.count() != 1 {
				t.Error("control: it runs what was not abandoned")
			}
		})
	}
}

// A job that is abandoned while its parcel is being received is ended when the parcel is there.
func TestGivenUpWhileItComes(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	w := newHarness(t, func(ctx context.Context, c *sandbox.Command) (sandbox.Ending, error) {
		<-ctx.Done()
		return sandbox.Ending{Exit: -1, Cause: sandbox.Killed}, nil
	}, nil)
	k := ticket()
	p := parcel(k, "echo")
	open := p.Open
	p.Open = func(name string) (io.ReadSeekCloser, error) {
		close(begun)
		<-release
		return open(name)
	}
	sent, killed := make(chan error, 1), make(chan error, 1)
	go func() { _, err := w.app.Submit(t.Context(), p); sent <- err }()
	<-begun
	go func() { killed <- w.app.Kill(t.Context(), handle(k)) }()
	close(release)
	for _, c := range []chan error{sent, killed} {
		if err := <-c; err != nil {
			t.Fatal(err)
		}
	}
	if n := w.end(k); n.Ending == nil || n.Ending.Cause != compute.CauseKilled {
		t.Errorf("got %+v, %+v", n, n.Ending)
	}
}
