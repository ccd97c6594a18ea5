package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/store/crash/power"
)

// A power cut at any time leaves no payload that ended well and has lost what it wrote: exit.json is on the disk after
// the output. The control ignores the syncs of the output.
func TestPowerCut(t *testing.T) {
	for _, names := range []bool{false, true} {
		if images, lost := outputsLost(t, names); images == 0 || len(lost) > 0 {
			t.Errorf("names at once %t: %d power cuts after exit.json; lost: %q", names, images, lost)
		}
	}
	for _, ignore := range []string{stdoutName, "made.txt", "deep", "in.txt"} {
		if _, lost := outputsLost(t, false, ignore); len(lost) == 0 {
			t.Errorf("nothing is lost without the syncs of %s: the test is blind", ignore)
		}
	}
}

// outputsLost runs a payload and cuts the power at each sync. It counts the cuts after which exit.json is there, and
// reports what was lost in them.
func outputsLost(t *testing.T, names bool, ignore ...string) (images int, lost []string) {
	t.Helper()
	d := power.Mount(t, power.Options{Every: true, Names: names, Ignore: ignore})
	play := func(_ context.Context, c *sandbox.Command) (sandbox.Ending, error) {
		fmt.Fprintln(c.Stdout, "hello")
		deep := filepath.Join(c.Dir, "out", "deep")
		if err := os.MkdirAll(deep, 0o755); err != nil {
			return sandbox.Ending{}, err
		}
		err := os.WriteFile(filepath.Join(deep, "made.txt"), []byte("made"), 0o644)
		return sandbox.Ending{Exit: 0, Tier: "none"}, err
	}
	w := newHarness(t, play, func(o *Options) { o.Dir = d.Dir })
	k := ticket()
	n := w.submit(w.app, parcel(k, "echo hello", "in.txt", "input"))
	if end := w.end(k); end.Ending.Exit != 0 || !end.HasResult {
		t.Fatalf("%+v", end)
	}
	w.stop()
	for i, image := range d.Images(t) {
		at := func(names ...string) string {
			text, _ := os.ReadFile(filepath.Join(append([]string{image, payloadsName, n.Remote}, names...)...))
			return string(text)
		}
		var ending compute.Ending
		if text := at(exitName); text == "" || json.Unmarshal([]byte(text), &ending) != nil || ending.Exit != 0 {
			continue
		}
		images++
		for name, want := range map[string]string{stdoutName: "hello\n", "job/out/deep/made.txt": "made",
			"job/in.txt": "input", "job/" + scriptName: "echo hello"} {
			if got := at(name); got != want {
				lost = append(lost, fmt.Sprintf("%s after sync %d", name, i))
			}
		}
	}
	return images, lost
}
