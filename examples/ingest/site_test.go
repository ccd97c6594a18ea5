package example

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/stagepost/stagepost/format/checkm"
)

// check reads the manifests and gives the number of objects whose files are all there and right.
func check(t *testing.T, dir string) (whole, broken int) {
	t.Helper()
	each(t, filepath.Join(dir, "batch.checkm"), checkm.BatchManifests, func(row checkm.Row) {
		right := true
		each(t, filepath.Join(dir, row.FileName), checkm.Object, func(f checkm.Row) {
			name := path.Join(row.FileName[:len(row.FileName)-len(".checkm")], f.FileName)
			in, err := os.Open(filepath.Join(dir, filepath.FromSlash(name)))
			if errors.Is(err, fs.ErrNotExist) {
				right = false
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			size, sum, err := digest(in)
			if err != nil {
				t.Fatal(err)
			}
			right = right && size == f.Size && sum == f.Digest.Value
		})
		if right {
			whole++
		} else {
			broken++
		}
	})
	return whole, broken
}

func each(t *testing.T, name string, p *checkm.Profile, do func(checkm.Row)) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := checkm.NewReader(name, f, checkm.Options{Allow: []*checkm.Profile{p}})
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		do(row)
	}
}

func TestBuildAndRepair(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		if _, err := Build(dir, "http://127.0.0.1:1"); err != nil {
			t.Fatal(err)
		}
	}
	if whole, broken := check(t, dir); whole != Objects-Broken || broken != Broken {
		t.Errorf("got %d whole and %d broken objects", whole, broken)
	}
	names, err := Repair(dir)
	if err != nil || len(names) != Broken {
		t.Fatalf("got %v, %v", names, err)
	}
	if whole, broken := check(t, dir); whole != Objects || broken != 0 {
		t.Errorf("got %d whole and %d broken objects", whole, broken)
	}
}
