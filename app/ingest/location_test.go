package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest/location"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// plantObject adds an object that no job of this installation made to a storage location.
func plantObject(t *testing.T, dir, ark, key string) {
	t.Helper()
	root, err := ocfl.InitRoot(dir, ocfl.DefaultLayout())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	v := ocfl.Version{Created: time.Unix(1_700_000_000, 0).UTC(), User: ocfl.User{Name: "stranger"}, Message: "planted",
		Files: []ocfl.File{{
			Path: "producer/theirs.txt", Size: -1, Open: func() (io.ReadCloser,
				error) {
				return io.NopCloser(strings.NewReader("theirs")), nil
			},
		}}}
	if _, err := root.AddVersion(t.Context(), ark, v, ocfl.Options{Stage: "plant", Key: key}); err != nil {
		t.Fatal(err)
	}
}

// seeded gives the n-th name that an application mints.
func seeded(t *testing.T, w *harness, n uint64) string {
	t.Helper()
	p, _ := w.options.Profiles.Get("test")
	name, err := p.Minter.NOID().Seeded(w.inventory.Installation()).Mint(n)
	if err != nil {
		t.Fatal(err)
	}
	return "ark:/" + name
}

// Every installation mints in an order of its own, and passes names that a storage location has, be it one of another
// profile.
func TestMintSkipsStored(t *testing.T) {
	other := testProfile()
	other.ID, other.Storage = "other", []string{"elsewhere"}
	w, w2 := start(t, testProfile(), other), start(t)
	first, second := w.one(Submission{}, "a"), w2.one(Submission{}, "a")
	if first.ARK == second.ARK {
		t.Errorf("two installations minted %s", first.ARK)
	}
	if want := seeded(t, w, 0); first.ARK != want {
		t.Errorf("control: the first name is %s, want %s", first.ARK, want)
	}
	w.one(Submission{Profile: "other"}, "b") // makes the second location, and takes the second name
	plantObject(t, filepath.Join(w.dir, "storage"), seeded(t, w, 2), "ing_gone")
	plantObject(t, filepath.Join(w.dir, "elsewhere"), seeded(t, w, 3), "")
	if got, want := w.one(Submission{}, "c").ARK, seeded(t, w, 4); got != want {
		t.Errorf("got %s, want %s: the names before are in storage", got, want)
	}
}

// What an outside minter gives is refused if storage has it, and so is a version on an object that this installation
// did not store.
func TestStrangersObjectGetsNoVersion(t *testing.T) {
	const theirs = "ark:/99999/fk4theirs"
	w := start(t, newMinter(t, &minter{next: []string{theirs}}))
	w.one(Submission{PrimaryID: "ark:/99999/fk4ours"}, "a")
	plantObject(t, filepath.Join(w.dir, "storage"), theirs, "ing_gone")
	for what, s := range map[string]Submission{
		"minted": {}, "given": {PrimaryID: theirs}, "update": {PrimaryID: theirs, Update: true},
	} {
		r := w.ingest(s, "x")
		if j := r.Jobs[0]; r.State != record.Failed || j.Cause != CauseIdentifiers ||
			!strings.Contains(j.Message, theirs) {
			t.Errorf("%s: got %s", what, r.Text())
		}
	}
	if got := w.files(theirs, ""); !cmp.Equal(got, map[string]string{"producer/theirs.txt": "theirs"}) {
		t.Errorf("the stranger's object is %v", got)
	}
	w.one(Submission{PrimaryID: "ark:/99999/fk4ours", Update: true, Filename: "b.txt"}, "control: ours takes a version")
}

// shared gives an application with a storage location that others can use as well.
func shared(t *testing.T, dirs ...string) (*harness, profile.Profile) {
	t.Helper()
	p := testProfile()
	p.Storage = dirs
	return start(t, p), p
}

// waitsForLocation waits until a job waits for a storage location and why names that. The job tries again all the time,
// and why is different while it does.
func (w *harness) waitsForLocation(id job.ID, sentence, remedy string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	for last := ""; ; {
		j, err := w.e.Await(ctx, id,
			func(j *job.Job) bool { return j.Ended || !j.Claimed() && j.Cause == causeLocation })
		if err != nil || j.Ended {
			w.t.Fatalf("%v: it is %s (%s: %s); the last reason was %s", err, j.State, j.Cause, j.Message, last)
		}
		why, err := explain.New(w.e).Why(ctx, id, never)
		if err != nil {
			w.t.Fatal(err)
		}
		text, err := json.Marshal(why)
		if err != nil {
			w.t.Fatal(err)
		}
		if last = string(text); strings.Contains(last, sentence) && strings.Contains(last, remedy) {
			return
		}
	}
}

// Two installations with one storage location: the second one is refused, whatever it submits, until an operator gives
// the location to it. Then the first one waits.
func TestTwoInstallationsOneLocation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shared")
	w, _ := shared(t, dir)
	w2, _ := shared(t, dir)
	const ark = "ark:/99999/fk4same"
	w.one(Submission{PrimaryID: ark, Filename: "first.txt"}, "first")
	b := w2.submit(Submission{PrimaryID: ark, Filename: "second.txt"}, "second")
	id := w2.children(b.ID, 1)[0].ID
	w2.waitsForLocation(id, "belongs to another installation ("+w.inventory.Installation(),
		"stagepost ingest storage adopt")
	if _, err := w2.Adopt(t.Context(), Adoption{Dir: dir, Actor: "op", Note: "the first server is gone"}); err != nil {
		t.Fatal(err)
	}
	if j := w2.end(id); j.State != record.Failed || j.Cause != CauseIdentifiers { // the object is not its own
		t.Errorf("got %s: %s", j.State, j.Message)
	}
	w2.one(Submission{Filename: "own.txt"}, "own")
	w.waitsForLocation(w.children(w.submit(Submission{PrimaryID: ark, Update: true}, "x").ID, 1)[0].ID,
		"belongs to another installation", "adopt")
	found, err := location.Read(dir)
	if err != nil || found.Installation != w2.inventory.Installation() || len(found.Before) != 1 ||
		found.Before[0].Installation != w.inventory.Installation() {
		t.Errorf("got %+v, %v", found, err)
	}
	r, err := ocfl.Validate(t.Context(), dir)
	if err != nil || !r.Valid() {
		t.Errorf("the identity is no fault of a storage root: %+v, %v", r, err)
	}
}

// unmount replaces a directory by an empty one, as when a file system is not mounted; the function that it gives mounts
// it again.
func unmount(t *testing.T, dir string) (mount func()) {
	t.Helper()
	rename := func(from, to string) {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	rename(dir, dir+".disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return func() {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("below the mount point are %v, %v", left, err)
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		rename(dir+".disk", dir)
	}
}

// The first, or the second, of two storage locations is not mounted: new objects and updates wait, nothing is written
// to either, and they go on when it is mounted again.
func TestLocationNotMounted(t *testing.T) {
	for i, which := range []string{"first", "second"} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,restart=%t", which, restart), func(t *testing.T) {
				disks := t.TempDir()
				dirs := []string{filepath.Join(disks, "first"), filepath.Join(disks, "second")}
				p := testProfile()
				p.Storage = dirs
				o, store := options(t, t.TempDir(), p), mem.New()
				w := startOn(t, store, o)
				ark := w.one(Submission{Filename: "a.txt"}, "alpha").ARK
				if restart {
					w.stop()
				}
				mount := unmount(t, dirs[i])
				if restart {
					w = startOn(t, store, o)
				}
				update := w.submit(Submission{PrimaryID: ark, Update: true, Filename: "b.txt"}, "beta")
				fresh := w.submit(Submission{Filename: "c.txt"}, "gamma")
				for _, b := range []job.Job{update, fresh} {
					w.waitsForLocation(w.children(b.ID, 1)[0].ID, "the storage location "+dirs[i]+" is not mounted",
						"mount its file system")
				}
				if err := w.Sweep(t.Context()); err != nil {
					t.Error(err)
				}
				if _, err := w.Orphans(t.Context()); err != nil {
					t.Error(err)
				}
				mount()
				for _, b := range []job.Job{update, fresh} {
					if j := w.end(b.ID); j.State != record.Completed {
						r := w.reported(b.ID)
						t.Fatalf("got %s", r.Text())
					}
				}
				for _, dir := range dirs {
					want := map[string]string{"a.txt": "alpha", "b.txt": "beta"}
					if diff := cmp.Diff(want, producedIn(t, dir, ark, "v2")); diff != "" {
						t.Errorf("%s: %s", dir, diff)
					}
				}
			})
		}
	}
}

// producedIn reads the producer's files of a version in a storage location.
func producedIn(t *testing.T, dir, ark, version string) map[string]string {
	t.Helper()
	root, err := ocfl.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	o, err := root.Object(ark)
	if err != nil {
		t.Fatal(err)
	}
	all, err := o.Files(version)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range all {
		name, ours := strings.CutPrefix(f.Path, workdir.ProducerName+"/")
		if !ours {
			continue
		}
		in, err := o.Open(version, f.Path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		in.Close()
		if err != nil {
			t.Fatal(err)
		}
		got[name] = string(text)
	}
	return got
}

// lose removes an object from a storage location.
func lose(t *testing.T, dir, ark string) {
	t.Helper()
	root, err := ocfl.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := os.RemoveAll(filepath.Join(dir, filepath.FromSlash(root.Path(ark)))); err != nil {
		t.Fatal(err)
	}
}

// An update builds on the newest version of any location, and brings the others up to it first. Locations that
// contradict each other, or have less than in the inventory, take no version.
func TestLocationsDisagree(t *testing.T) {
	dirs := []string{filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")}
	w, _ := shared(t, dirs...)
	for _, behind := range dirs {
		ark := w.one(Submission{Filename: "a.txt"}, "alpha").ARK
		w.one(Submission{PrimaryID: ark, Update: true, Filename: "b.txt"}, "beta")
		lose(t, behind, ark)
		if v := w.one(Submission{PrimaryID: ark, Update: true, Filename: "c.txt"}, "gamma").Version; v != 3 {
			t.Errorf("got version %d", v)
		}
		for _, dir := range dirs {
			if diff := cmp.Diff(map[string]string{"a.txt": "alpha", "b.txt": "beta", "c.txt": "gamma"},
				producedIn(t, dir, ark, "v3")); diff != "" {
				t.Errorf("%s was without the object, and %s has: %s", behind, dir, diff)
			}
		}
	}
	refused := func(ark, sentence string) {
		t.Helper()
		r := w.ingest(Submission{PrimaryID: ark, Update: true, Filename: "d.txt"}, "delta")
		if j := r.Jobs[0]; j.Cause != CauseStorage || !strings.Contains(j.Message, sentence) ||
			!strings.Contains(j.Message, "stagepost admin fsck") {
			t.Errorf("got %s", r.Text())
		}
	}
	ark := w.one(Submission{Filename: "a.txt"}, "alpha").ARK
	lose(t, dirs[0], ark)
	plantObject(t, dirs[0], ark, "ing_other")
	refused(ark, "the storage locations disagree about "+ark)
	both := w.one(Submission{Filename: "a.txt"}, "alpha").ARK
	lose(t, dirs[0], both)
	lose(t, dirs[1], both)
	refused(both, "version 1 of "+both+" is recorded")
	w.one(Submission{Filename: "a.txt"}, "control")
}

// Another file system than that in the inventory, and a profile that names one location by two names, are refused.
func TestLocationsSwapped(t *testing.T) {
	disks := t.TempDir()
	first, second := filepath.Join(disks, "first"), filepath.Join(disks, "second")
	w, _ := shared(t, first, second)
	w.one(Submission{Filename: "a.txt"}, "alpha")
	for _, step := range [][2]string{{first, first + ".aside"}, {second, first}, {first + ".aside", second}} {
		if err := os.Rename(step[0], step[1]); err != nil {
			t.Fatal(err)
		}
	}
	b := w.submit(Submission{Filename: "b.txt"}, "beta")
	w.waitsForLocation(w.children(b.ID, 1)[0].ID, "has another id", "mount the right file system")
	alias := filepath.Join(disks, "alias")
	if err := os.Symlink(filepath.Join(disks, "third"), alias); err != nil {
		t.Fatal(err)
	}
	w2, _ := shared(t, filepath.Join(disks, "third"), alias)
	r := w2.ingest(Submission{}, "text")
	if j := r.Jobs[0]; j.Cause != CauseStorage || !strings.Contains(j.Message, "twice") {
		t.Errorf("got %s", r.Text())
	}
}
