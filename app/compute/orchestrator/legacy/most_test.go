package legacy

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/edge/collect"
)

// zeros are bytes without end, counted.
type zeros struct{ given int64 }

func (z *zeros) Read(p []byte) (int, error) {
	clear(p)
	z.given += int64(len(p))
	return len(p), nil
}

// Results without end are cut off, and nothing of them stays on the disk.
func TestMostResults(t *testing.T) {
	at, err := wire.AgentAt("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c, err := New(Options{Endpoints: at, Temp: dir, Most: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	endless := &zeros{}
	if _, err := c.packed(t.Context(), io.LimitReader(endless, 64<<20)); !errors.Is(err, collect.ErrTooLarge) ||
		endless.given > 4<<20 {
		t.Errorf("got %v after %d bytes", err, endless.given)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("there are %v, %v", left, err)
	}
	var small bytes.Buffer
	z := zip.NewWriter(&small)
	f, err := z.Create("out.txt")
	if err == nil {
		_, err = io.WriteString(f, "result")
	}
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	r, err := c.packed(t.Context(), &small)
	if err != nil {
		t.Fatalf("control: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("when it is read there are %v, %v", left, err)
	}
}
