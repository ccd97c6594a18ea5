package sqlite

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stagepost/stagepost/internal/log"
)

var images = flag.Int("images", 40, "TestPowerCutWithLog: least number of images of a disk after a power cut")

// A power cut after any write to the log in front, the database or the head file loses nothing that was acknowledged,
// leaves a database that is sound, and no log that is refused. Segments are small, so that the cuts meet rotations and
// removals; the applier is quick, slow, or rests until a flush. Each round loses other sectors.
func TestPowerCutWithLog(t *testing.T) {
	total := 0
	for seed := uint64(1); total < *images; seed++ {
		random := rand.New(rand.NewPCG(seed, 2))
		for _, after := range []time.Duration{5 * time.Millisecond, time.Microsecond, time.Hour} {
			ops := record(t, Options{logSize: 16 << 10, applyAfter: after})
			stride := max(1, len(ops)*3*3 / *images)
			cut := every(stride, func(*diskOp) bool { return true })
			got := cutPowerBy(t, ops, append(patterns(random), torn(random)), cut,
				func(format string, args ...any) bool {
					t.Errorf("seed %d, applier after %s: "+format, append([]any{seed, after}, args...)...)
					return true
				})
			total += got.images
			t.Logf("seed %d, applier after %s: %d operations, %d images", seed, after, len(ops), got.images)
			if got.images < min(*images, 120)/12 {
				t.Errorf("%d images are too few", got.images)
			}
		}
	}
	t.Logf("%d images", total)
}

// The controls: without the syncs of records, or of the directory of the segments, the same cuts lose what was
// acknowledged.
func TestPowerCutWithLogControl(t *testing.T) {
	for _, c := range []struct {
		name string
		left log.OpKind
	}{{"records", log.Sync}, {"names of segments", log.Named}} {
		t.Run(c.name, func(t *testing.T) {
			var d *disk
			o := Options{logSize: 16 << 10, applyAfter: time.Hour}
			o.logTap = func(op log.Op) error {
				if op.Kind == c.left {
					return nil
				}
				return d.frontLog(op)
			}
			got := cutPower(t, recordOn(t, &d, o), everywhere(), func(string, ...any) bool { return false })
			t.Logf("%d images, %d lost something", got.images, got.lost+got.broken)
			if got.lost+got.broken == 0 {
				t.Errorf("nothing was lost without syncs of the %s: the test is blind", c.name)
			}
		})
	}
}
