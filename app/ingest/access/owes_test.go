package access

import (
	"context"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// TestPostconditionOfPackages: a package that was not made, or is another one, does not complete.
func TestPostconditionOfPackages(t *testing.T) {
	for name, spoil := range map[string]func(a *App, ctx context.Context, r *engine.Run) error{
		"none": func(*App, context.Context, *engine.Run) error { return nil },
		"lie":  func(_ *App, _ context.Context, r *engine.Run) error { return r.SetData(data{Digest: "x", Size: 1}) },
		"other": func(a *App, ctx context.Context, r *engine.Run) error {
			if err := a.assemble(ctx, r); err != nil {
				return err
			}
			return r.SetData(data{Digest: "x", Size: 1})
		},
		"control": func(a *App, ctx context.Context, r *engine.Run) error { return a.assemble(ctx, r) },
	} {
		t.Run(name, func(t *testing.T) {
			a := openAccess(t, t.TempDir(), newShelf(t), nil)
			works := a.Works()
			works[0].Steps[record.Processing] = func(ctx context.Context,
				r *engine.Run) error {
				return spoil(a, ctx, r)
			}
			e, err := engine.New(mem.New(), works, engine.Options{})
			if err != nil {
				t.Fatal(err)
			}
			a.Bind(e)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- e.Run(ctx) }()
			st, err := a.Request(t.Context(), Request{Object: "ark:/99999/fk4shelf"})
			if err != nil {
				t.Fatal(err)
			}
			j, err := e.Await(t.Context(), st.Job, func(j *job.Job) bool { return j.Ended })
			want := map[bool]lifecycle.State{true: record.Completed, false: record.Failed}[name == "control"]
			if err != nil || j.State != want {
				t.Errorf("it is %s (%s: %s), %v", j.State, j.Cause, j.Message, err)
			}
			cancel()
			<-done
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
