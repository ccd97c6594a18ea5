package agent

import (
	"context"
	"io"
	"testing"

	"github.com/stagepost/stagepost/edge/sandbox"
)

// TestFollowFromTheBegin: the log of a payload that is about to begin is followed to its end. A run that began between
// two checks counted as one that had ended, and its log as empty.
func TestFollowFromTheBegin(t *testing.T) {
	w := newHarness(t, func(_ context.Context, c *sandbox.Command) (sandbox.Ending, error) {
		_, err := io.WriteString(c.Stdout, "begun\n")
		return sandbox.Ending{}, err
	}, nil)
	for range 100 {
		k := ticket()
		w.submit(w.app, parcel(k, "x"))
		log, err := w.app.Log(t.Context(), handle(k), "stdout", 0, true)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(log)
		if err != nil || string(text) != "begun\n" {
			t.Fatalf("got %q, %v", text, err)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
