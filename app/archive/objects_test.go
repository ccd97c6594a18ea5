package archive

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/audit"
	"github.com/stagepost/stagepost/app/archive/packaging"
	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
)

// TestObjects: each activity is an object in every storage root, and each job makes one version of it. Content that did
// not change is not stored again. The package is made as without objects.
func TestObjects(t *testing.T) {
	src := newFake(2, 3)
	roots := map[string]*ocfl.Root{}
	dirs := map[string]string{"one": filepath.Join(t.TempDir(), "one"), "two": filepath.Join(t.TempDir(), "two")}
	for name, dir := range dirs {
		root, err := ocfl.InitRoot(dir, ocfl.DefaultLayout())
		if err != nil {
			t.Fatal(err)
		}
		roots[name] = root
	}
	bubble(t, src, func(o *Options) { o.Objects = func() map[string]*ocfl.Root { return roots } }, func(h *harness) {
		request := Request{Settings: Settings{Package: settings.PackageOCFL}}
		var last job.ID
		for round := range 2 {
			j := h.end(h.submit(request).ID)
			if j.State != Completed {
				h.t.Fatalf("got %s: %s", j.State, h.events(j.ID))
			}
			if j.Words != "algebra" {
				h.t.Errorf("its words are %q", j.Words)
			}
			if faults := h.stored(&j, h.options.Dir); round == 0 && len(faults) > 0 {
				h.t.Error(faults)
			}
			for name, root := range roots {
				for _, activity := range []string{"1", "2"} {
					o, err := root.Object(packaging.ObjectID(source.Facts{Kind: "fake", Name: "fake"}, activity))
					if err != nil {
						h.t.Fatalf("%s: %v", name, err)
					}
					inventory, stored := o.Inventory(), 0
					for _, paths := range inventory.Manifest {
						for _, p := range paths {
							if strings.HasSuffix(p, ".txt") && strings.Contains(p, "item-") {
								stored++
							}
						}
					}
					if want := 3 + round; len(inventory.Versions) != round+1 || activity == "1" && stored != want {
						h.t.Errorf("%s, activity %s: %d versions, %d files are stored", name, activity,
							len(inventory.Versions), stored)
					}
				}
			}
			src.files["1"]["item-1"] = "another answer"
			last = j.ID
			h.showsObjects(last, time.Time{}, 0)
		}
		h.checksVersions(roots, dirs)
		h.showsObjects(last, time.Now(), 1)
		for name, dir := range dirs {
			r, err := ocfl.Validate(h.t.Context(), dir)
			if err != nil || !r.Valid() || r.Objects != 2 {
				h.t.Errorf("%s: got %+v, %v", name, r, err)
			}
		}
	})
	bubble(t, src, nil, func(h *harness) {
		request := Request{Source: "campus", Course: "5", Settings: Settings{Package: settings.PackageOCFL}}
		if _, err := h.Submit(h.t.Context(), request, Ordered{}); job.KindOf(err) != job.Invalid {
			h.t.Errorf("without a storage root: got %v", err)
		}
	})
}

// showsObjects checks what the details of an archive have of its versions: those of two objects in two roots, which
// were checked after a time (zero: not yet), and in which so many files were healed.
func (h *harness) showsObjects(id job.ID, checked time.Time, healed int) {
	h.t.Helper()
	d, err := h.Details(h.t.Context(), id)
	if err != nil || len(d.Objects) != 4 {
		h.t.Fatalf("got %+v, %v", d.Objects, err)
	}
	for _, o := range d.Objects {
		healed -= o.Healed
		if o.Checked.IsZero() != checked.IsZero() || o.Checked.Before(checked) || o.Faults != 0 ||
			len(o.SHA512) != 128 || o.Stored.IsZero() || o.Version == "" || o.Object == "" ||
			!strings.HasPrefix(o.Location, audit.RootPrefix) {
			h.t.Errorf("got %+v", o)
		}
	}
	if healed != 0 {
		h.t.Errorf("%d healed files are not shown", healed)
	}
}

// checksVersions checks that fixity checks read every version of every root, and find and heal a flipped byte.
func (h *harness) checksVersions(roots map[string]*ocfl.Root, dirs map[string]string) {
	h.t.Helper()
	id := packaging.ObjectID(source.Facts{Kind: "fake", Name: "fake"}, "1")
	o, err := roots["one"].Object(id)
	if err != nil {
		h.t.Fatal(err)
	}
	var name string
	for _, paths := range o.Inventory().Manifest {
		for _, p := range paths {
			if strings.HasPrefix(p, "v2/content/") && strings.Contains(p, "item-") {
				name = filepath.Join(dirs["one"], roots["one"].Path(id), p)
			}
		}
	}
	checker := audit.New(audit.Options{
		Catalog: h.options.Catalog, Copies: h.options.Copies, Objects: h.options.Objects,
		Now:    func() time.Time { return time.Now().AddDate(0, 0, 31) },
		Report: func(context.Context, string, string, string) error { return nil },
	})
	for round, want := range []int{0, 1} {
		if round == 1 {
			b, err := os.ReadFile(name)
			if err != nil {
				h.t.Fatal(err)
			}
			b[0] ^= 1
			if err := os.WriteFile(name, b, 0o600); err != nil {
				h.t.Fatal(err)
			}
			time.Sleep(time.Hour) // of the bubble
			if err := checker.Start(h.t.Context(), nil); err != nil {
				h.t.Fatal(err)
			}
		}
		r, err := checker.Pass(h.t.Context())
		if err != nil || r.Faults != want || r.Healed != want {
			h.t.Errorf("round %d: got %+v, %v", round, r, err)
		}
	}
	for name := range roots {
		due, err := h.options.Catalog.DueVersions(h.t.Context(), audit.RootPrefix+name, time.Now().AddDate(1, 0, 0), 0)
		if err != nil || len(due) != 4 {
			h.t.Errorf("%s: %d versions are in the catalog, %v", name, len(due), err)
		}
	}
}
