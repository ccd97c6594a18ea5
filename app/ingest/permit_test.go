package ingest

import (
	"context"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/job"
)

// permits starts three profiles of one owner: every user may submit under maps, carol may update all of it; closed is
// for ann alone; charts is another collection whose updater is bob.
func permits(t *testing.T) *harness {
	t.Helper()
	of := func(id string, submit, update []string) profile.Profile {
		p := testProfile()
		p.ID, p.Collection, p.Submitters, p.Updaters = id, id, submit, update
		return p
	}
	return start(t, of("maps", nil, []string{"carol"}), of("closed", []string{"ann"}, nil),
		of("charts", nil, []string{"bob"}))
}

func (w *harness) submitFor(user string, s Submission, text string) (job.Job, error) {
	s.Submitter = user
	return w.SubmitFor(w.t.Context(), user, s, strings.NewReader(text))
}

// TestStrangersAddNoVersion submits versions of ann's object by its local id and its ARK, in the form and in the
// payload.
func TestStrangersAddNoVersion(t *testing.T) {
	w := permits(t)
	b, err := w.submitFor("ann", Submission{Profile: "maps", Filename: "x.zip", LocalIDs: []string{"l1"},
		Title: "Her title"}, zipOf(t, "a", "1", "b", "2"))
	if err != nil {
		t.Fatal(err)
	}
	w.end(b.ID)
	hers := w.reported(b.ID).Jobs[0].ARK
	site := newSite(t, map[string]string{"mine": "mine"})
	for _, name := range []string{"maps", "charts"} { // charts has bob as updater, but the object is one of maps
		for what, s := range map[string]Submission{
			"local id": {LocalIDs: []string{"new", "l1"}}, "ark": {PrimaryID: strings.Replace(hers, "ark:/", "ark:",
				1)}, "update": {LocalIDs: []string{"l1"}, Update: true},
		} {
			s.Profile, s.Filename = name, "x.zip"
			_, err := w.submitFor("bob", s, zipOf(t, "c", "3"))
			if job.KindOf(err) != job.NotFound || strings.Contains(err.Error(), "Her") ||
				!strings.Contains(what, "ark") && strings.Contains(err.Error(), hers) {
				t.Errorf("%s under %s: got %v", what, name, err)
			}
		}
		batch, err := w.submitFor("bob", Submission{Profile: name, Type: TypeFileBatchManifest},
			manifest("mrt-single-file-batch-manifest", site.row("mine", "l1", "Mine")))
		if err != nil {
			t.Fatal(err)
		}
		w.end(batch.ID)
		r := w.reported(batch.ID)
		if r.State != record.Failed || r.Jobs[0].Cause != CauseUnknownObject || strings.Contains(r.Text(), hers) ||
			strings.Contains(r.Text(), "Her title") {
			t.Errorf("by a row under %s: got %s", name, r.Text())
		}
	}
	if o := w.object(hers); o.Head != 1 || o.Profile != "maps" {
		t.Errorf("got %+v", o)
	}
	w.valid()
}

// TestWhoMayUpdate is the control: the depositor, an updater of the profile, and staff, who are not bound.
func TestWhoMayUpdate(t *testing.T) {
	w := permits(t)
	for k, user := range []string{"ann", "carol", "", "ann"} {
		b, err := w.submitFor(user, Submission{Profile: "maps", LocalIDs: []string{"l1"}, Filename: "f"},
			user+" wrote it: "+strings.Repeat("x", k))
		if err != nil {
			t.Fatalf("%s: %v", user, err)
		}
		w.end(b.ID)
		if r := w.reported(b.ID); r.State != record.Completed || r.Jobs[0].Version != k+1 {
			t.Fatalf("%s: got %s", user, r.Text())
		}
	}
	for user, want := range map[string]int{"": 1, "ann": 1, "carol": 1, "bob": 0} {
		all, err := w.Objects(t.Context(), ObjectQuery{LocalID: "l1", Permit: w.Permit(user)})
		if err != nil || len(all) != want {
			t.Errorf("%q sees %d, %v", user, len(all), err)
		}
	}
}

// TestProfilesOfStrangers: a profile that does not name a user is as unknown to it.
func TestProfilesOfStrangers(t *testing.T) {
	w := permits(t)
	_, err := w.submitFor("bob", Submission{Profile: "closed", Filename: "f"}, "x")
	_, none := w.submitFor("bob", Submission{Profile: "nothing", Filename: "f"}, "x")
	if err == nil || none == nil || strings.Replace(err.Error(), `"closed"`, `"nothing"`, 1) != none.Error() {
		t.Errorf("got %v, want the words of %v", err, none)
	}
	for _, user := range []string{"ann", ""} {
		b, err := w.submitFor(user, Submission{Profile: "closed", Filename: "f"}, "x"+user)
		if err != nil {
			t.Fatalf("%q: %v", user, err)
		}
		w.end(b.ID)
	}
}

// TestWithinCollections submits for a sender that is limited to the collection maps: a profile of another collection is
// as unknown, and an object of another one gets no version, by the form and by a row. The control has no limit.
func TestWithinCollections(t *testing.T) {
	w := permits(t)
	b, err := w.submitFor("", Submission{Profile: "charts", Filename: "f", LocalIDs: []string{"c1"}}, "chart")
	if err != nil {
		t.Fatal(err)
	}
	w.end(b.ID)
	site := newSite(t, map[string]string{"mine": "mine"})
	limited := Within(t.Context(), "maps")
	for _, c := range []struct {
		name    string
		s       Submission
		payload string
		want    job.ErrorKind
	}{
		{"its collection", Submission{Profile: "maps", Filename: "f", LocalIDs: []string{"m1"}}, "map", ""},
		{"another collection", Submission{Profile: "charts", Filename: "f"}, "x", job.Invalid},
		{"another object", Submission{Profile: "maps", Filename: "f", LocalIDs: []string{"c1"}}, "x", job.NotFound},
	} {
		b, err := w.SubmitFor(limited, "", c.s, strings.NewReader(c.payload))
		if (err == nil) != (c.want == "") || err != nil && job.KindOf(err) != c.want {
			t.Errorf("%s: got %v", c.name, err)
		}
		if err == nil {
			w.end(b.ID)
		}
	}
	rows := manifest("mrt-single-file-batch-manifest", site.row("mine", "c1", "Mine"))
	for k, ctx := range []context.Context{limited, t.Context()} {
		b, err := w.SubmitFor(
			ctx,
			"",
			Submission{Profile: "maps", Type: TypeFileBatchManifest},
			strings.NewReader(rows),
		)
		if err != nil {
			t.Fatal(err)
		}
		w.end(b.ID)
		r := w.reported(b.ID)
		if unknown := r.Jobs[0].Cause == CauseUnknownObject; unknown != (k == 0) {
			t.Errorf("by a row, limited %t: got %s", k == 0, r.Text())
		}
	}
}
