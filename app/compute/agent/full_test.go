package agent

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
)

// A disk that fills up while a parcel is being received ends the reception, whichever way it comes; nothing of it
// stays.
func TestDiskFillsUp(t *testing.T) {
	var looks, room atomic.Int64
	w := newHarness(t, writes(0), func(o *Options) {
		o.Reserve = 1 << 20
		o.Disk = func(string) (int64, error) {
			if looks.Add(1) > room.Load() {
				return 0, nil
			}
			return 1 << 40, nil
		}
	})
	remote, _ := w.remote(HandlerOptions{})
	large := strings.Repeat("x", askEvery+1<<20)
	direct := func() error {
		d, err := w.app.Direct().Begin()
		if err != nil {
			return err
		}
		defer d.Discard()
		if err := d.File(scriptName, strings.NewReader(large)); err != nil {
			return err
		}
		_, err = d.Commit(t.Context(), "x=1", "somebody")
		return err
	}
	for name, x := range map[string]compute.Executor{"local": w.app.Local(), "remote": remote} {
		looks.Store(0)
		room.Store(1) // when it is admitted
		var refusal *compute.Refusal
		if _, err := x.Submit(t.Context(), parcel(ticket(), "echo", "large", large)); !errors.As(err, &refusal) ||
			!refusal.Here {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for _, begun := range []int64{0, 1} { // when the file begins, and while it comes
		looks.Store(0)
		room.Store(begun)
		var refusal *compute.Refusal
		if err := direct(); !errors.As(err, &refusal) || !refusal.Here || !refusal.Full {
			t.Errorf("direct, %d checks: got %v", begun, err)
		}
	}
	for _, dir := range []string{stageName, payloadsName} {
		if left, err := os.ReadDir(filepath.Join(w.dir, dir)); err != nil || len(left) != 0 {
			t.Errorf("%s has %v, %v", dir, left, err)
		}
	}
	room.Store(math.MaxInt64) // controls
	if n := w.submit(remote, parcel(ticket(), "echo", "large", large)); n.Remote == "" {
		t.Errorf("got %+v", n)
	}
	if err := direct(); err != nil {
		t.Error(err)
	}
}

// Sizes whose sum is no number do not pass for little.
func TestHugeSizes(t *testing.T) {
	w := newHarness(t, writes(0), nil)
	p := parcel(ticket(), "echo", "a", "", "b", "")
	for i := range p.Files {
		p.Files[i].Size = math.MaxInt64/2 + 1
	}
	var refusal *compute.Refusal
	if _, err := w.app.Submit(t.Context(), p); err == nil || errors.As(err, &refusal) ||
		!strings.Contains(err.Error(), "too large") {
		t.Errorf("got %v", err)
	}
}
