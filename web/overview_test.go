package web_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
)

// entries are those of a store that fails.
type entries struct{ fails error }

func (e entries) Entries(context.Context) (int64, string, error)           { return 0, "a", e.fails }
func (e entries) Moved(context.Context, int64, int64) ([]job.Moved, error) { return nil, e.fails }

// TestOverviewWithoutThroughput: the overview states why the throughput is not known, and shows the rest. The control
// is a store that does not fail.
func TestOverviewWithoutThroughput(t *testing.T) {
	for want, fails := range map[string]error{
		"could not be counted: the disk is full.": job.Errorf(job.Unavailable, "history", "", "the disk is full"),
		"0 jobs ended in the last 24 hours":       nil,
	} {
		w := servertest.Open(t, func(o *server.Options) { o.Entries = entries{fails} }, nil, part)
		w.Post(engine.Order{})
		for { // the search may take longer than a page waits; the time limit of the test ends it
			answer, text := w.AskPage(w.Request(http.MethodGet, "/", ""))
			if answer.StatusCode != http.StatusOK || !strings.Contains(text, "What runs") {
				t.Fatalf("got %s, %s", answer.Status, text)
			}
			if strings.Contains(text, want) {
				break
			}
		}
	}
}
