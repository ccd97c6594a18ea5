package explain_test

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/enginetest"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
)

// TestMain fails if a goroutine is left over.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The lifecycles and steps of the tests.
var (
	letters, notes, bagOf = enginetest.Letters, enginetest.Notes, enginetest.BagOf
	takes, blocked        = enginetest.Takes, enginetest.Blocked
)

// harness is an engine with its explainer, inside a synctest bubble.
type harness struct {
	*engine.Engine
	*explain.Explainer
	t     *testing.T
	store job.Store
	stop  func()
}

func start(t *testing.T, store job.Store, o engine.Options, works ...engine.Work) *harness {
	t.Helper()
	e, stop := enginetest.Start(t, store, o, works...)
	return &harness{Engine: e, Explainer: explain.New(e), t: t, store: store, stop: stop}
}

func (w *harness) post(o engine.Order) job.Job {
	w.t.Helper()
	return enginetest.Post(w.t, w.Engine, o)
}

func (w *harness) end(id job.ID) job.Job {
	w.t.Helper()
	return enginetest.End(w.t, w.Engine, id)
}

func blocks(x api.Explanation, code string) bool {
	for _, b := range x.Blockers {
		if b.Code == code {
			return true
		}
	}
	return false
}

var errBroken = errors.New("the axle broke")
