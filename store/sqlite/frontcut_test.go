package sqlite

import (
	"testing"
	"time"

	"github.com/stagepost/stagepost/internal/log"
)

// A power cut after any write to the log in front, the database or the head file loses nothing that was acknowledged,
// leaves a database that is sound, and no log that is refused. Segments are small, so that the cuts meet rotations and
// removals; the applier is quick, slow, or rests until somebody flushes.
func TestPowerCutWithLog(t *testing.T) {
	for _, after := range []time.Duration{5 * time.Millisecond, time.Microsecond, time.Hour} {
		stride := *cuts
		if stride > 1 {
			stride *= 8
		}
		ops := record(t, Options{Log: true, logSize: 16 << 10, applyAfter: after})
		cut := every(stride, func(*diskOp) bool { return true })
		got := cutPower(t, ops, cut, func(format string, args ...any) bool {
			t.Errorf("applier after "+after.String()+": "+format, args...)
			return true
		})
		t.Logf("applier after %s: %d operations, %d images", after, len(ops), got.images)
		if got.images < 20 {
			t.Errorf("%d images are too few", got.images)
		}
		if stride > 1 {
			return
		}
	}
}

// The control: without the syncs of records, the same cuts lose what was acknowledged.
func TestPowerCutWithLogControl(t *testing.T) {
	var d *disk
	o := Options{Log: true, logSize: 16 << 10, applyAfter: time.Hour}
	o.logTap = func(op log.Op) error {
		if op.Kind == log.Sync {
			return nil
		}
		return d.frontLog(op)
	}
	got := cutPower(t, recordOn(t, &d, o), everywhere(), func(string, ...any) bool { return false })
	t.Logf("%d images, %d lost something", got.images, got.lost+got.broken)
	if got.lost+got.broken == 0 {
		t.Error("nothing was lost without syncs of the log: the test is blind")
	}
}
