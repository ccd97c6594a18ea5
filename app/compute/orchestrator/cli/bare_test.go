package orchestratorcli

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	computeserve "github.com/stagepost/stagepost/app/compute/serve"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/host"
	"github.com/stagepost/stagepost/job"
)

// TestAgentThatIsAwayCounts: a queued job with limits is not refused permanently because the only one who answers
// after a start is an original client, which has none: the agent that dials in is yet to come. With no one else to come
// it is refused: the control.
func TestAgentThatIsAwayCounts(t *testing.T) {
	original := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/load") {
			_, _ = io.WriteString(w, "1.0")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"ok","database":"ok"}`)
	}))
	t.Cleanup(original.Close)
	for far, refused := range map[string]bool{"  far: {tunnel: true}\n": false, "": true} {
		s, jobs, _ := newSettings()
		s.Data, s.Listen = t.TempDir(), "127.0.0.1:0"
		jobs.Services = filepath.Join(t.TempDir(), "services.yaml")
		if err := os.WriteFile(jobs.Services, []byte("services:\n  example: {}\nagents:\n  old: {legacy: "+original.URL+"}\n"+far), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := host.Start(t.Context(), s, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		known := func() bool {
			all := r.App("compute").(*computeserve.App).Agents()
			return len(all) > 0 && all[0].Up
		}
		for tick := time.NewTicker(5 * time.Millisecond); !known(); <-tick.C {
			if t.Context().Err() != nil {
				t.Fatal("the original client was never found")
			}
		}
		api, err := client.New(r.URL, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		j, err := api.SubmitCompute(t.Context(), client.ComputeOrder{Service: "example",
			Command: &client.ComputeCommand{Words: []string{"true"}},
			Limits:  client.ComputeLimits{Wall: client.Seconds(time.Hour)}}, nil, nil)
		if (job.KindOf(err) == job.Invalid) != refused {
			t.Errorf("refused %t: %+v, %v", refused, j, err)
		}
		if !refused && err == nil {
			now, err := r.Engine.Await(t.Context(), j.ID, func(j *job.Job) bool { return j.Cause != "" || j.Ended })
			if err != nil || now.State != compute.Queued {
				t.Errorf("it is %s: %s, %v", now.State, now.Message, err)
			}
		}
		api.Close()
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	}
}
