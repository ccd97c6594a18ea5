package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/store/mem"
)

// TestUnchangedIsNotStoredAgain: a submission that is sent again adds no version. What is new in it adds one, and so
// does an update.
func TestUnchangedIsNotStoredAgain(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha", "b.txt": "beta"})
	w := start(t)
	both, one := s.manifest("a.txt", "b.txt"), s.manifest("a.txt")
	of := func(more Submission) Submission {
		more.LocalIDs = append([]string{"l1"}, more.LocalIDs...)
		return more
	}
	elsewhere := strings.ReplaceAll(both, "/b.txt |", "/b.txt?again |")
	for i, c := range []struct {
		about   string
		s       Submission
		text    string
		version int
		again   bool
	}{
		{"first", of(Submission{Title: "Maps"}), both, 1, false},
		{"the same", of(Submission{Title: "Maps"}), both, 1, true},
		{"without the title, which is inherited", of(Submission{}), both, 1, true},
		{"the same files from another address", of(Submission{}), elsewhere, 1, true},
		{"by its ARK", Submission{PrimaryID: "first"}, both, 1, true},
		{"another title", of(Submission{Title: "Atlas"}), both, 2, false},
		{"another local id", of(Submission{LocalIDs: []string{"l2"}}), both, 3, false},
		{"a file less", of(Submission{}), one, 4, false},
		{"that again", of(Submission{}), one, 4, true},
		{"a file more", of(Submission{}), both, 5, false},
		{"an update of nothing new", of(Submission{Update: true}), both, 6, false},
	} {
		if c.s.PrimaryID == "first" {
			objects, err := w.Objects(t.Context(), ObjectQuery{LocalID: "l1"})
			if err != nil || len(objects) != 1 {
				t.Fatal(objects, err)
			}
			c.s.PrimaryID = objects[0].ARK
		}
		c.s.Note = fmt.Sprint(i)
		j := w.one(c.s, c.text)
		if says := j.Message == fmt.Sprintf(alreadyStored, c.version); j.Version != c.version || says != c.again {
			t.Errorf("%s: got version %d, %q", c.about, j.Version, j.Message)
		}
		if o := w.object(j.ARK); o.Head != c.version || len(o.Versions) != c.version {
			t.Errorf("%s: got %+v", c.about, o)
		}
		kept, err := w.store.Get(t.Context(), j.Job)
		var d record.JobData
		if err != nil || json.Unmarshal(kept.Data, &d) != nil || (d.Same != nil) != c.again ||
			(d.Identity == nil) != c.again || (d.Version == 0) != c.again || (len(d.Places) == 0) != c.again {
			t.Errorf("%s: the record has %+v, %v", c.about, d, err)
		}
		if locks, err := w.Locks(t.Context()); err != nil || len(locks) > 0 {
			t.Errorf("%s: locks %v, %v", c.about, locks, err)
		}
		if files, err := w.JobFiles(t.Context(), j.Job, "", 100); err != nil || files.Source != fromInventory ||
			len(files.Files) == 0 {
			t.Errorf("%s: files %+v, %v", c.about, files, err)
		}
	}
	w.valid()
}

// dyingRecord crashes before a version is recorded.
type dyingRecord struct {
	locker
	die bool
}

func (d *dyingRecord) Take(ctx context.Context, by inventory.Taker, wants ...inventory.Want) ([]inventory.Lock, error) {
	if d.die && len(wants) == 2 {
		return nil, fail(CauseStorage, "crashed")
	}
	return d.locker.Take(ctx, by, wants...)
}

// TestUnchangedAfterDeath: a version that storage has and the inventory has not is not taken for stored. The job that
// made it finds its own version and records it; another job with the same files adds one.
func TestUnchangedAfterDeath(t *testing.T) {
	o := options(t, t.TempDir())
	w := wire(t, mem.New(), o)
	d := &dyingRecord{locker: w.inventory, die: true}
	w.locks = d
	w.run()
	s := Submission{LocalIDs: []string{"l1"}, Filename: "f.txt"}
	failed := w.ingest(s, "text")
	if failed.State != record.Failed || failed.Jobs[0].FailedIn != record.Recording {
		t.Fatalf("got %s", failed.Text())
	}
	d.die = false
	other := w.one(s, "text")
	if other.Version != 2 || other.Message != "" {
		t.Errorf("another job: version %d, %q", other.Version, other.Message)
	}
	if err := w.do(failed.Jobs[0].Job, record.Retry); err != nil {
		t.Fatal(err)
	}
	if j := w.end(failed.Jobs[0].Job); j.State != record.Completed || j.Message != "" {
		t.Errorf("the first job: %s, %q", j.State, j.Message)
	}
	if got := w.object(other.ARK); got.Head != 2 || len(got.Versions) != 2 {
		t.Errorf("got %+v", got)
	}
	if again := w.one(s, "text"); again.Version != 2 || again.Message != fmt.Sprintf(alreadyStored, 2) {
		t.Errorf("sent again: version %d, %q", again.Version, again.Message)
	}
	w.valid()
}

// TestUnchangedInEveryPlace: a storage location that is new to the profile gets the version.
func TestUnchangedInEveryPlace(t *testing.T) {
	o := options(t, t.TempDir())
	s := Submission{LocalIDs: []string{"l1"}, Filename: "f.txt"}
	w := startOn(t, mem.New(), o)
	if j := w.one(s, "text"); j.Version != 1 {
		t.Fatalf("got version %d", j.Version)
	}
	w.stop()
	p := testProfile()
	p.Storage = []string{"storage", "second"}
	o.Profiles = options(t, o.Dir, p).Profiles
	w = startOn(t, mem.New(), o)
	if j := w.one(s, "text"); j.Version != 2 || j.Message != "" {
		t.Errorf("got version %d, %q", j.Version, j.Message)
	}
	if j := w.one(s, "text"); j.Version != 2 || j.Message == "" {
		t.Errorf("got version %d, %q", j.Version, j.Message)
	}
	w.valid("storage", "second")
}

// TestLoose: a size that is wrong where the digest is right is a warning, also when the attempt is repeated, and an
// error in a strict profile.
func TestLoose(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha"})
	strict := testProfile()
	strict.ID, strict.Strict = "strict", true
	w := start(t, testProfile(), strict)
	row := s.URL + "/a.txt | md5 | " + md5Hex("alpha") + " | 7 |  | a.txt |  | LOCAL"
	text := manifest("mrt-single-file-batch-manifest", row)
	j := w.one(Submission{}, strings.Replace(text, "LOCAL", "l1", 1))
	if len(j.Warnings) != 1 || j.Warnings[0] != fmt.Sprintf(otherSize, "a.txt", 5, 7) ||
		w.files(j.ARK, "v1")["producer/a.txt"] != "alpha" {
		t.Errorf("got %q", j.Warnings)
	}
	one, err := w.store.Get(t.Context(), j.Job)
	if err != nil {
		t.Fatal(err)
	}
	if r := w.reported(one.Parent); !strings.Contains(r.Text(), "Warning: a.txt has 5 bytes, its manifest says 7") {
		t.Errorf("got %s", r.Text())
	}
	if r := w.ingest(Submission{Profile: "strict"}, text); r.State != record.Failed {
		t.Errorf("strict: got %s", r.Text())
	}
	w.valid()
}

// TestAsGiven: in an update, the rules for names also hold for what stays.
func TestAsGiven(t *testing.T) {
	given := testProfile()
	given.ID, given.Names = "given", profile.NamesAsGiven
	w := start(t, testProfile(), given)
	w.one(Submission{LocalIDs: []string{"l1"}, Filename: "c.zip"}, zipOf(t, "README", "one"))
	s := Submission{LocalIDs: []string{"l1"}, Filename: "c.zip", Update: true}
	r := w.ingest(s, zipOf(t, "readme", "two"))
	if r.State != record.Failed || r.Jobs[0].Cause != CauseDuplicateName ||
		!strings.Contains(r.Message, record.DeleteName) || !strings.Contains(r.Message, "README") {
		t.Errorf("portable: got %s", r.Text())
	}
	if r := w.ingest(s, zipOf(t, "README/x", "two")); r.State != record.Failed ||
		r.Jobs[0].Cause != CauseDuplicateName {
		t.Errorf("a file and a directory: got %s", r.Text())
	}
	both := s
	both.Profile = "given"
	j := w.one(both, zipOf(t, "readme", "two"))
	if got := w.files(j.ARK, fmt.Sprintf("v%d", j.Version)); got["producer/README"] != "one" ||
		got["producer/readme"] != "two" {
		t.Errorf("as given: got %v", got)
	}
	j = w.one(s, zipOf(t, "Readme", "three", record.DeleteName, "README\nreadme\nmissing\nproducer/also missing\n"))
	want := []string{record.DeleteName + " names also missing, which the version before does not have.",
		record.DeleteName + " names missing, which the version before does not have."}
	if len(j.Warnings) != 2 || j.Warnings[0] != want[0] || j.Warnings[1] != want[1] {
		t.Errorf("got %q", j.Warnings)
	}
	if got := w.files(j.ARK, fmt.Sprintf("v%d", j.Version)); got["producer/Readme"] != "three" ||
		got["producer/README"]+got["producer/readme"] != "" {
		t.Errorf("taken out: got %v", got)
	}
	w.valid()
}
