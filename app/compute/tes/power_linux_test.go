package tes

import (
	"os"
	"testing"

	"github.com/stagepost/stagepost/store/crash/power"
)

func TestMain(m *testing.M) {
	power.Main()
	os.Exit(m.Run())
}

// Outputs that were copied stay after a power cut. The controls leave out one sync each.
func TestPowerCut(t *testing.T) {
	power.Check(t, lostOutputs, ".tes-*", "sub", "deep")
}

func lostOutputs(t *testing.T, ignore ...string) []string {
	t.Helper()
	d := power.Mount(t, power.Options{Ignore: ignore})
	a, _ := adapter(t, func(o *Options) { o.Outputs = []string{d.Dir} })
	if _, err := delivered(t, a, d.Dir, made{"tes/a", "A"}, Output{Path: "/a", URL: d.Dir + "/sub/deep/a"}); err !=
		nil {
		t.Fatal(err)
	}
	return power.Lost(t, d.Dir, d.Image(t))
}
