package jobs

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// TestDigestIsForPrograms: the digest of the request that made a job is in the JSON of its history alone.
func TestDigestIsForPrograms(t *testing.T) {
	first := client.Event{Seq: 1, Event: job.Create, To: "Queued", Cause: "request=01234567"}
	second := client.Event{Seq: 2, Event: "fail", To: "Failed", Cause: "network", Note: "it is down"}
	var b bytes.Buffer
	c := &Commands{Call: &cli.Call{Out: &cli.Printer{Writer: &b}}}
	for name, print := range map[string]func() error{
		"history": func() error { return c.printHistory([]client.Event{first, second}) },
		"why": func() error {
			x := &client.Explanation{Chain: []client.Event{first, second}}
			if c.Out.Mode == cli.ModePlain {
				return c.explainPlain(x)
			}
			c.chain(x)
			return nil
		},
	} {
		for _, mode := range []string{cli.ModeTable, cli.ModePlain} {
			b.Reset()
			c.Out.Mode = mode
			if err := print(); err != nil {
				t.Fatal(err)
			}
			words := name == "history" && mode == cli.ModeTable
			if text := b.String(); strings.Contains(text, "request=") || !strings.Contains(text, "network") ||
				strings.Contains(text, keyed) != words {
				t.Errorf("%s, %v: got %q", name, mode, text)
			}
		}
	}
}
