package flowcli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	flowserve "github.com/stagepost/stagepost/app/flowfile/serve"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// TestFlowsFitALine: on a terminal each flow and each value of a flow has one line of at most 80 columns; in a pipe
// nothing is cut.
func TestFlowsFitALine(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	long := strings.Repeat("a long text ", 30) + "END"
	one := client.Job{Job: job.Job{
		ID: "flw_01J9ZZZZZZZZZZZZZZ7K2M3PQX", Kind: client.FlowKind, Title: "deploy " + long,
		Message: "approval waits for the signal approved " + long, Created: time.Now().Add(-time.Hour),
	}, Links: map[string]string{"page": "/flows/flw_01J9ZZZZZZZZZZZZZZ7K2M3PQX"}}
	one.State = "SUSPENDED"
	text, err := json.Marshal(long)
	if err != nil {
		t.Fatal(err)
	}
	view := client.Flow{
		Job: one, Name: "deploy", Awaits: []string{"approved " + long},
		Signals: []client.FlowSent{{Name: "sent", Value: client.Seen{Value: text}}},
		Values:  map[string]client.Seen{"host": {Value: text}},
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"jobs": []client.Job{one, one}})
	}))
	t.Cleanup(web.Close)
	api, err := client.New(web.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	print := func(p *cli.Printer, do func(*commands) error) string {
		t.Helper()
		var b bytes.Buffer
		p.Writer = &b
		call := &cli.Call{Out: p, Settings: &cli.Common{Server: web.URL}}
		if err := do(&commands{jobs.Commands{Call: call}, &flowserve.Settings{}}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	lists := func(c *commands) error { return c.List(t.Context(), api, job.Query{}, cli.Pages{Limit: 50}) }
	shows := func(c *commands) error { return c.printFlow(&view) }
	list := print(&cli.Printer{Mode: cli.ModeTable, Terminal: true, Width: 80}, lists)
	lines := strings.Split(strings.TrimSpace(list), "\n")
	if len(lines) != 3 || !strings.Contains(list, "7K2M3PQX  SUSPENDED  1h   deploy a long") ||
		!strings.Contains(list, "approval waits") {
		t.Errorf("got %s", list)
	}
	shown := print(&cli.Printer{Mode: cli.ModeTable, Terminal: true, Width: 80}, shows)
	if !strings.Contains(shown, "\npage: "+web.URL+"/flows/flw_") {
		t.Errorf("it does not name the page: %s", shown)
	}
	for _, kind := range []string{"await ", "signal ", "value "} {
		if strings.Count(shown, "\n"+kind) != 1 {
			t.Errorf("no line of %s: %s", kind, shown)
		}
	}
	for _, line := range append(lines, strings.Split(shown, "\n")...) {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, do := range []func(*commands) error{lists, shows} {
		piped := print(&cli.Printer{Mode: cli.ModePlain}, do)
		if strings.Count(piped, "END") < 4 || strings.Contains(piped, "...") || strings.Contains(piped, "page:") {
			t.Errorf("a pipe gets %s", piped)
		}
	}
}
