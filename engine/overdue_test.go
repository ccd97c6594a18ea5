package engine_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// TestOverdueNamesTheCause checks jobs that are at work or wait when their time is up. The control has no such
// function, and its cause is timeout.
func TestOverdueNamesTheCause(t *testing.T) {
	for _, c := range []struct {
		name string
		hook bool
		step engine.Step
		want string
	}{
		{"at work", true, func(ctx context.Context, r *engine.Run) error {
			<-ctx.Done()
			return ctx.Err()
		}, "swallowed"},
		{"waiting", true, func(_ context.Context, r *engine.Run) error {
			return engine.Wait(job.Blocker{Code: "fog", Sentence: "fog", Until: r.Now().Add(time.Hour)})
		}, "swallowed"},
		{"control", false, func(ctx context.Context, r *engine.Run) error {
			<-ctx.Done()
			return ctx.Err()
		}, cause.Timeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				work := letters(map[lc.State]engine.Step{"Riding": c.step})
				work.Policies = map[lc.State]engine.Policy{"Riding": {Timeout: time.Minute}}
				if c.hook {
					work.Overdue = func(j *job.Job) (cause, sentence string) { return "swallowed", "the moor has it" }
				}
				w := start(t, mem.New(), engine.Options{}, work)
				defer w.stop()
				j := w.end(w.post(engine.Order{}).ID)
				if j.Cause != c.want || c.hook && !strings.Contains(j.Message, "the moor has it") {
					t.Errorf("%s by %q: %q", j.State, j.Cause, j.Message)
				}
			})
		})
	}
}
