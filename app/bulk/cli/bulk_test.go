package bulkcli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/quantity"
)

// TestBulkAsksForTheNumber: on a terminal the operator types it; anything else does nothing.
func TestBulkAsksForTheNumber(t *testing.T) {
	for typed, agrees := range map[string]bool{"40\n": true, " 40 \n": true, "40": true, "41\n": false,
		"yes\n": false, "\n": false, "": false, "4 0\n": false} {
		var out bytes.Buffer
		c := &commands{jobs.Commands{Call: &cli.Call{In: strings.NewReader(typed), Out: cli.NewPrinter(&out)}}}
		err := c.askNumber(&client.BulkPreview{Event: "retry", Count: 40})
		if (err == nil) != agrees || err != nil && job.KindOf(err) != job.Refused {
			t.Errorf("%q: got %v", typed, err)
		}
		if !strings.HasPrefix(out.String(), "To retry these, type their number: ") {
			t.Errorf("it asked %q", out.String())
		}
	}
}

// TestNoQuestionInAPipe: --yes is no number.
func TestNoQuestionInAPipe(t *testing.T) {
	for _, yes := range []bool{false, true} {
		c := &commands{jobs.Commands{Call: &cli.Call{In: strings.NewReader("40\n"),
			Out: cli.NewPrinter(&bytes.Buffer{})}}}
		if err := c.agree(&client.BulkPreview{Count: 40}, yes); job.KindOf(err) != job.Refused ||
			!strings.Contains(err.Error(), "--expect 40") {
			t.Errorf("got %v", err)
		}
	}
}

func TestSizes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1_234_567: "1.2 MiB",
		5_000_000_000_000: "4.5 TiB", 1<<63 - 1: "8.0 EiB"} {
		if got := quantity.Size(n); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
