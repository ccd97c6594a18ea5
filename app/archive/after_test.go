package archive

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/custody"
	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// states gives "id state" of activities.
func states(all []api.ArchiveActivity) string {
	var words []string
	for _, x := range all {
		words = append(words, x.ID+" "+x.State)
	}
	return strings.Join(words, ", ")
}

func TestOverview(t *testing.T) {
	src := newFake(3, 1)
	bubble(t, src, nil, func(h *harness) {
		t := h.t
		check := func(want string) api.ArchiveOverview {
			t.Helper()
			o, err := h.Overview(t.Context(), "campus", "5")
			if err != nil || states(o.Activities) != want || o.Course.ShortName != "ALG" {
				t.Fatalf("got %q, %v, want %q", states(o.Activities), err, want)
			}
			return o
		}
		check("1 missing, 2 missing, 3 missing, 99 excluded")
		j := h.end(h.submit(Request{Activities: []string{"1", "2"}}).ID)
		o := check("1 archived, 2 archived, 3 missing, 99 excluded")
		if x := o.Activities[0]; x.Job != j.ID || x.Bytes == 0 || x.Archived.IsZero() || x.Name != "Quiz 1" {
			t.Errorf("got %+v", x)
		}
		if o.Counts["archived"] != 2 || o.Counts["missing"] != 1 || o.Activities[3].Reason == "" {
			t.Errorf("got %+v", o)
		}
		src.files["1"]["item-0"] = "other"
		delete(src.files, "2")
		check("1 changed, 3 missing, 99 excluded, 2 removed")
	})
}

// TestOverviewOfNothing: what does not exist is an error that names it.
func TestOverviewOfNothing(t *testing.T) {
	bubble(t, newFake(1, 1), nil, func(h *harness) {
		t := h.t
		if _, err := h.Overview(t.Context(), "nowhere", "5"); job.KindOf(err) != job.Invalid {
			t.Errorf("source: got %v", err)
		}
		if _, err := h.Overview(t.Context(), "campus", ""); job.KindOf(err) != job.Invalid {
			t.Errorf("course: got %v", err)
		}
	})
}

func TestPlan(t *testing.T) {
	src, keep := newFake(2, 3), "720h"
	presets := func(o *Options) {
		o.Presets = func(name string) (settings.Preset, bool) {
			p := settings.Preset{Settings: Settings{Keep: keep, Pack: settings.PackZip}, Locked: []string{"keep"}}
			return p, name == "default"
		}
	}
	bubble(t, src, presets, func(h *harness) {
		t := h.t
		r := Request{Source: "campus", Course: "5", Settings: Settings{Quorum: "majority"}}
		p, err := h.Plan(t.Context(), r)
		if err != nil || p.Items != 6 || p.Unknown != 2 || p.Bytes != 0 || len(p.Skipped) != 1 ||
			p.Skipped[0].Reason != "labels have no content" {
			t.Fatalf("got %+v, %v", p, err)
		}
		if p.Settings.Keep != keep || p.Settings.Pack != settings.PackZip || p.Settings.Quorum != "majority" ||
			time.Until(p.RetainTo).Round(time.Minute) != 720*time.Hour {
			t.Errorf("settings: got %+v, until %s", p.Settings, p.RetainTo)
		}
		if len(p.Locations) != 2 || p.Locations[0].Reason != "" || !strings.HasPrefix(p.Package, "archive-ALG-5_") {
			t.Errorf("got %+v, %s", p.Locations, p.Package)
		}
		if all, err := h.options.Catalog.Archives(t.Context(), catalog.Query{}); err != nil || len(all) != 0 {
			t.Errorf("it archived: %v, %v", all, err)
		}
		if len(src.fetched) != 0 {
			t.Errorf("it fetched %v", src.fetched)
		}
		h.end(h.submit(Request{}).ID)
		if p, err = h.Plan(t.Context(), r); err != nil || p.Unknown != 0 || p.Bytes == 0 ||
			states(p.Activities) != "1 archived, 2 archived" {
			t.Errorf("again: got %+v, %v", p, err)
		}
	})
}

// TestPlanRefuses: what Submit or the job refuses, the plan does.
func TestPlanRefuses(t *testing.T) {
	yes, no := true, false
	locked := func(o *Options) {
		o.Presets = func(string) (settings.Preset, bool) { return settings.Preset{Locked: []string{"quorum"}}, true }
	}
	bubble(t, newFake(1, 1), locked, func(h *harness) {
		t := h.t
		for _, c := range []struct {
			change func(*Request)
			kind   job.ErrorKind
		}{
			{func(r *Request) {}, ""}, // the control
			{func(r *Request) { r.Source = "nowhere" }, job.Invalid},
			{func(r *Request) { r.Settings.Quorum = "1" }, job.Refused},
			{func(r *Request) { r.Settings.Locations = []string{"nowhere"} }, job.Invalid},
			{func(r *Request) { r.Activities = []string{"77"} }, job.NotFound},
			{func(r *Request) { r.Activities, r.Settings.ActivityOptional = []string{"99"}, &no }, job.Refused},
			{func(r *Request) { r.Settings.CourseBackup = &yes }, job.Refused},
			{func(r *Request) { r.Settings.FileName = "${nothing}" }, job.Invalid},
		} {
			r := Request{Source: "campus", Course: "5"}
			c.change(&r)
			if _, err := h.Plan(t.Context(), r); job.KindOf(err) != c.kind {
				t.Errorf("%+v: got %v, want %s", r, err, c.kind)
			}
		}
	})
}

// payload gives the path of the package of a job.
func (h *harness) payload(id job.ID) string {
	h.t.Helper()
	all, err := h.Artifacts(h.t.Context(), id, "", 0)
	i := slices.IndexFunc(all.Artifacts, func(x api.ArchiveArtifact) bool { return x.Role == "payload" })
	if err != nil || i < 0 {
		h.t.Fatalf("got %+v, %v", all, err)
	}
	return all.Artifacts[i].Path
}

func TestRetrieve(t *testing.T) {
	bubble(t, newFake(2, 2), nil, func(h *harness) {
		t := h.t
		id := h.end(h.submit(Request{}).ID).ID
		path := h.payload(id)
		f, err := h.Retrieve(t.Context(), id, path, 0)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := io.ReadAll(f)
		if err != nil || int64(len(whole)) != f.Size {
			t.Fatalf("got %d bytes, %v", len(whole), err)
		}
		for _, at := range []int64{0, 1, f.Size / 2, f.Size - 1, f.Size} {
			if n, err := f.Seek(at, io.SeekStart); err != nil || n != at {
				t.Fatal(n, err)
			}
			if part, err := io.ReadAll(f); err != nil || string(part) != string(whole[at:]) {
				t.Errorf("from %d: got %d bytes, %v", at, len(part), err)
			}
		}
		if n, err := f.Seek(-3, io.SeekEnd); err != nil || n != f.Size-3 {
			t.Error(n, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		// a copy that is gone is no reason: there is another one
		near := filepath.Join(h.options.Dir, "near", string(id), path)
		if err := os.Remove(near); err != nil {
			t.Fatal(err)
		}
		f, err = h.Retrieve(t.Context(), id, path, 1)
		if err != nil {
			t.Fatal(err)
		}
		if part, err := io.ReadAll(f); err != nil || string(part) != string(whole[1:]) {
			t.Errorf("from the other location: got %d bytes, %v", len(part), err)
		}
		if err := os.Remove(filepath.Join(h.options.Dir, "far", string(id), path)); err != nil {
			t.Fatal(err)
		}
		if _, err = h.Retrieve(t.Context(), id, path, 0); job.KindOf(err) != job.Unavailable {
			t.Errorf("without a copy: got %v", err)
		}
		if _, err = h.Retrieve(t.Context(), id, "nothing", 0); job.KindOf(err) != job.NotFound {
			t.Errorf("no file: got %v", err)
		}
		if _, err = h.Retrieve(t.Context(), "arc_nothing", path, 0); job.KindOf(err) != job.NotFound {
			t.Errorf("no archive: got %v", err)
		}
	})
}

// deleteIt takes the event delete as one person.
func (h *harness) deleteIt(id job.ID, actor string) error {
	_, err := h.engine.Do(h.t.Context(), operator.Act{
		Job: id, Event: Delete, By: lifecycle.Operator, Actor: actor, Note: "why", Confirm: true,
	})
	return err
}

// remains counts the files of a job in both locations.
func (h *harness) remains(id job.ID) (n int) {
	h.t.Helper()
	for _, name := range []string{"near", "far"} {
		all, err := filepath.Glob(filepath.Join(h.options.Dir, name, string(id), "*"))
		if err != nil {
			h.t.Fatal(err)
		}
		n += len(all)
	}
	return n
}

// deleted waits until an archive is deleted with its copies.
func (h *harness) deleted(id job.ID) api.ArchiveDetails {
	h.t.Helper()
	for range 1000 {
		d, err := h.Details(h.t.Context(), id)
		if err != nil {
			h.t.Fatal(err)
		}
		if d.Tombstone != nil {
			if d.State != Deleted || h.remains(id) != 0 {
				h.t.Fatalf("it is %s with %d copies", d.State, h.remains(id))
			}
			return d
		}
		time.Sleep(time.Second) // of the bubble
	}
	h.t.Fatal("it is not deleted")
	return api.ArchiveDetails{}
}

// TestDeletionBeforeItsTimeNeedsTwoPersons: whatever role they have.
func TestDeletionBeforeItsTimeNeedsTwoPersons(t *testing.T) {
	bubble(t, newFake(1, 1), nil, func(h *harness) {
		t := h.t
		id := h.end(h.submit(Request{Settings: Settings{Keep: "720h"}}).ID).ID
		if err := h.deleteIt(id, "ann"); job.KindOf(err) != job.Refused ||
			!strings.Contains(err.Error(), "stagepost archive delete") {
			t.Fatalf("the event: got %v", err)
		}
		d, err := h.RequestDeletion(t.Context(), id, "ann", "wrong course")
		if err != nil || d.State != "requested" || d.Kind != "early" || !strings.Contains(d.Remedy, d.Request) {
			t.Fatalf("got %+v, %v", d, err)
		}
		if again, err := h.RequestDeletion(t.Context(), id, "ann", "wrong course"); err != nil || again != d {
			t.Errorf("again: got %+v, %v", again, err)
		}
		if err := h.deleteIt(id, "ben"); job.KindOf(err) != job.Refused {
			t.Errorf("the event after the request: got %v", err)
		}
		if _, err := h.DecideDeletion(t.Context(), d.Request, "ann", true, ""); job.KindOf(err) != job.Refused {
			t.Errorf("her own request: got %v", err)
		}
		if err := h.Expire(t.Context()); err != nil || h.remains(id) == 0 {
			t.Fatalf("it is deleted: %v", err)
		}
		if d, err = h.DecideDeletion(t.Context(), d.Request, "ben", true, "checked"); err != nil {
			t.Fatal(err)
		}
		x := h.deleted(id)
		if x.Tombstone.By != "ann" || x.Tombstone.ApprovedBy != "ben" || x.Tombstone.Reason != "wrong course" {
			t.Errorf("got %+v", x.Tombstone)
		}
		if _, err := h.Retrieve(t.Context(), id, "x", 0); job.KindOf(err) != job.Gone {
			t.Errorf("retrieve: got %v", err)
		}
		if _, err := h.RequestDeletion(t.Context(), id, "eve", "again"); job.KindOf(err) != job.Refused {
			t.Errorf("delete again: got %v", err)
		}
		if _, err := h.Hold(t.Context(), id, api.HoldArchive{Name: "c", Note: "n", Actor: "e"}); job.KindOf(err) !=
			job.Refused {
			t.Errorf("hold: got %v", err)
		}
	})
}

// TestRefusedDeletion: a request that was refused deletes nothing, and another one can be made.
func TestRefusedDeletion(t *testing.T) {
	bubble(t, newFake(1, 1), nil, func(h *harness) {
		t := h.t
		id := h.end(h.submit(Request{}).ID).ID
		d, err := h.RequestDeletion(t.Context(), id, "ann", "wrong course")
		if err != nil {
			t.Fatal(err)
		}
		if d, err = h.DecideDeletion(t.Context(), d.Request, "ben", false, "it is right"); err != nil ||
			d.State != "refused" {
			t.Fatalf("got %+v, %v", d, err)
		}
		if _, err := h.DecideDeletion(t.Context(), d.Request, "eve", true, ""); job.KindOf(err) != job.Refused {
			t.Errorf("approved after all: got %v", err)
		}
		if err := h.Expire(t.Context()); err != nil || h.remains(id) == 0 {
			t.Errorf("it is deleted: %v", err)
		}
		if next, err := h.RequestDeletion(t.Context(), id, "ann", "really"); err != nil || next.Request == d.Request {
			t.Errorf("got %+v, %v", next, err)
		}
		if all, err := h.Deletions(t.Context(), "requested", 0); err != nil || len(all) != 1 {
			t.Errorf("got %+v, %v", all, err)
		}
	})
}

// TestLegalHold: it refuses a request, an approval, the event, and the end of the retention time.
func TestLegalHold(t *testing.T) {
	bubble(t, newFake(1, 1), nil, func(h *harness) {
		t := h.t
		id := h.end(h.submit(Request{Settings: Settings{Keep: "1h"}}).ID).ID
		d, err := h.RequestDeletion(t.Context(), id, "ann", "early")
		if err != nil {
			t.Fatal(err)
		}
		holds, err := h.Hold(t.Context(), id, api.HoldArchive{Name: "case 7", Note: "court", Actor: "law"})
		if err != nil || len(holds) != 1 || holds[0].Reason != "court" {
			t.Fatalf("got %+v, %v", holds, err)
		}
		if _, err := h.DecideDeletion(t.Context(), d.Request, "ben", true, ""); job.KindOf(err) != job.Refused ||
			!strings.Contains(err.Error(), "case 7") {
			t.Errorf("approval: got %v", err)
		}
		time.Sleep(2 * time.Hour)
		if err := h.deleteIt(id, "ann"); job.KindOf(err) != job.Refused || !strings.Contains(err.Error(), "case 7") {
			t.Errorf("the event: got %v", err)
		}
		if err := h.Expire(t.Context()); err == nil || h.remains(id) == 0 {
			t.Errorf("retention: got %v, %d copies", err, h.remains(id))
		}
		holds, err = h.Release(t.Context(), id, "case 7", "law", "over")
		if err != nil || holds[0].ReleasedBy != "law" {
			t.Fatalf("got %+v, %v", holds, err)
		}
		if err := h.Expire(t.Context()); err != nil { // the control: the approved request goes on
			t.Fatal(err)
		}
		h.deleted(id)
		if _, err := h.Release(t.Context(), id, "case 8", "law", "over"); job.KindOf(err) != job.NotFound {
			t.Errorf("no hold: got %v", err)
		}
		if _, err := h.Hold(t.Context(), "arc_x", api.HoldArchive{Name: "c", Note: "n", Actor: "e"}); job.KindOf(err) !=
			job.NotFound {
			t.Errorf("no archive: got %v", err)
		}
	})
}

// TestExpire: an archive is deleted when its retention time has ended, not before. A request that waits for a second
// person does not keep it.
func TestExpire(t *testing.T) {
	bubble(t, newFake(1, 1), nil, func(h *harness) {
		t := h.t
		id := h.end(h.submit(Request{Settings: Settings{Keep: "1h"}}).ID).ID
		kept := h.end(h.submit(Request{}).ID).ID
		if _, err := h.RequestDeletion(t.Context(), id, "ann", "early"); err != nil {
			t.Fatal(err)
		}
		if err := h.Expire(t.Context()); err != nil || h.remains(id) == 0 {
			t.Fatalf("too early: %v", err)
		}
		time.Sleep(2 * time.Hour)
		if err := h.Expire(t.Context()); err != nil {
			t.Fatal(err)
		}
		if x := h.deleted(id); x.Tombstone.By != "retention" || x.Tombstone.ApprovedBy != "" {
			t.Errorf("got %+v", x.Tombstone)
		}
		if h.remains(kept) == 0 {
			t.Error("an archive without a retention time is deleted")
		}
	})
}

// TestDeleteAfterItsTime: one person is enough, by the event and by a request.
func TestDeleteAfterItsTime(t *testing.T) {
	bubble(t, newFake(1, 1), nil, func(h *harness) {
		t := h.t
		byEvent := h.end(h.submit(Request{Settings: Settings{Keep: "1h"}}).ID).ID
		byRequest := h.end(h.submit(Request{Settings: Settings{Keep: "1h"}}).ID).ID
		if _, err := h.RequestDeletion(t.Context(), byRequest, "ann", "too early"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		if _, err := h.RequestEarly(t.Context(), byEvent, "otto", "now"); job.KindOf(err) != job.Refused ||
			!strings.Contains(err.Error(), "its retention time has ended") {
			t.Errorf("a person who may not delete: got %v", err)
		}
		if err := h.deleteIt(byEvent, "ann"); err != nil {
			t.Fatal(err)
		}
		h.deleted(byEvent)
		if d, err := h.RequestDeletion(t.Context(), byRequest, "ann", "now"); err != nil || d.Kind != "retention" {
			t.Fatalf("got %+v, %v", d, err)
		}
		h.deleted(byRequest)
	})
}

// TestDeleteFailedJob: of a job that never read its source there is no archive.
func TestDeleteFailedJob(t *testing.T) {
	bubble(t, newFake(0, 0), nil, func(h *harness) {
		t := h.t
		j := h.end(h.submit(Request{}).ID)
		if j.State != Failure {
			t.Fatalf("it is %s", j.State)
		}
		if err := h.deleteIt(j.ID, "ann"); err != nil {
			t.Error(err)
		}
	})
}

var errCrash = errors.New("crash")

// crashAt lets the process crash at point number n, from 1, and sets reached then.
func (f *fake) crashAt(n int, reached *bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := 0
	f.crash = func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if at++; at == n {
			*reached = true
			return fmt.Errorf("point %d: %w", n, errCrash)
		}
		return nil
	}
}

// approve approves a deletion, and repeats it after a crash, as a person does.
func (h *harness) approve(request string) {
	h.t.Helper()
	for {
		_, err := h.DecideDeletion(h.t.Context(), request, "ben", true, "")
		if err == nil {
			return
		}
		if !errors.Is(err, errCrash) {
			h.t.Fatal(err)
		}
	}
}

// TestDeletionAfterACrash: wherever a deletion is interrupted, it goes on to one tombstone and no copies.
func TestDeletionAfterACrash(t *testing.T) {
	for n := 1; ; n++ {
		src := newFake(1, 1)
		reached := false
		synctest.Test(t, func(t *testing.T) {
			h := start(t, mem.New(), quickDir(t), src, nil)
			defer h.stop()
			id := h.end(h.submit(Request{}).ID).ID
			d, err := h.RequestDeletion(t.Context(), id, "ann", "wrong")
			if err != nil {
				t.Fatal(err)
			}
			src.crashAt(n, &reached)
			h.approve(d.Request)
			if err := h.Expire(t.Context()); err != nil && !errors.Is(err, errCrash) {
				t.Fatalf("point %d: %v", n, err)
			}
			if x := h.deleted(id); x.Tombstone.ApprovedBy != "ben" {
				t.Errorf("point %d: got %+v", n, x.Tombstone)
			}
		})
		if !reached {
			if n < 8 {
				t.Errorf("only %d points were tried", n-1)
			}
			return
		}
	}
}

func TestPeople(t *testing.T) {
	bubble(t, newFake(2, 2), nil, func(h *harness) {
		t := h.t
		id := h.end(h.submit(Request{}).ID).ID
		found, err := h.People(t.Context(), api.FindPeople{Text: "ann", Actor: "eve"})
		if err != nil || len(found.People) != 1 || found.People[0].ID != "19" || found.More {
			t.Fatalf("got %+v, %v", found, err)
		}
		one, ann := api.NamePerson{Source: "campus", ID: "19", Actor: "eve"}, api.FindPeople{Text: "ann", Actor: "eve"}
		d, err := h.PersonData(t.Context(), one)
		if err != nil || len(d.Archives) != 1 || d.Archives[0].Job != id || len(d.Contents) < 4 ||
			d.Contents[0].Course != "5" {
			t.Fatalf("got %+v, %v", d, err)
		}
		n := len(d.Contents)
		e := api.ErasePerson{Source: "campus", ID: "19", Note: "request of the person", Actor: "ann"}
		if _, err := h.ErasePerson(t.Context(), e); job.KindOf(err) != job.Refused ||
			!strings.Contains(err.Error(), fmt.Sprint(n)) {
			t.Errorf("without the number: got %v", err)
		}
		e.Expect = &n
		hold := api.HoldArchive{Name: "case 7", Note: "court", Actor: "law"}
		if _, err := h.Hold(t.Context(), id, hold); err != nil {
			t.Fatal(err)
		}
		if _, err := h.ErasePerson(t.Context(), e); job.KindOf(err) != job.Refused {
			t.Errorf("held: got %v", err)
		}
		if _, err := h.Release(t.Context(), id, "case 7", "law", "over"); err != nil {
			t.Fatal(err)
		}
		done, err := h.ErasePerson(t.Context(), e)
		if err != nil || done.Contents != int64(n) || len(done.Archives) != 1 || done.Archives[0] != id {
			t.Fatalf("got %+v, %v", done, err)
		}
		if found, err = h.People(t.Context(), ann); err != nil || len(found.People) != 0 {
			t.Errorf("got %+v, %v", found, err)
		}
		if _, err := h.PersonData(t.Context(), one); job.KindOf(err) != job.NotFound {
			t.Errorf("got %v", err)
		}
		if _, err := h.People(t.Context(), api.FindPeople{Text: " "}); job.KindOf(err) != job.Invalid {
			t.Errorf("got %v", err)
		}
	})
}

func TestDetailsAndPreservation(t *testing.T) {
	bubble(t, newFake(2, 1), nil, func(h *harness) {
		t := h.t
		id := h.end(h.submit(Request{Settings: Settings{Keep: "720h"}}).ID).ID
		d, err := h.Details(t.Context(), id)
		if err != nil || d.State != Completed || d.Outcome != "complete" || len(d.Activities) != 2 || d.Files < 3 ||
			len(d.Stored) != 2 || d.Stored[0].Copies != d.Files || d.Retain.IsZero() || d.Settings.Keep != "720h" {
			t.Fatalf("got %+v, %v", d, err)
		}
		p, err := h.Preservation(t.Context(), id)
		if err != nil || len(p.Objects) != d.Files+1 || len(p.Objects[1].Storage) != 2 {
			t.Fatalf("got %+v, %v", p, err)
		}
		var text strings.Builder
		if err := p.WriteXML(&text); err != nil || !strings.Contains(text.String(), string(id)) {
			t.Errorf("got %s, %v", text.String(), err)
		}
		for _, err := range []error{
			second(h.Details(t.Context(), "arc_x")), second(h.Preservation(t.Context(), "arc_x")),
			second(h.Artifacts(t.Context(), "arc_x", "", 0)),
		} {
			if job.KindOf(err) != job.NotFound {
				t.Errorf("got %v", err)
			}
		}
		request, err := h.RequestDeletion(t.Context(), id, "ann", "wrong")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.DecideDeletion(t.Context(), request.Request, "ben", true, ""); err != nil {
			t.Fatal(err)
		}
		if d = h.deleted(id); d.Tombstone.Files != int64(d.Files) || d.Stored[0].Deleted != d.Files {
			t.Errorf("got %+v", d)
		}
		p, err = h.Preservation(t.Context(), id)
		if err != nil || len(p.Events) == 0 || p.Events[len(p.Events)-1].Type != "deletion" || p.Agents[0].Name == "" {
			t.Errorf("got %+v, %v", p, err)
		}
	})
}

// TestDetailsDuringDeletion: a reader that has the tombstone of an archive has its copies as deleted, at every moment
// of the deletion.
func TestDetailsDuringDeletion(t *testing.T) {
	bubble(t, newFake(2, 1), nil, func(h *harness) {
		t := h.t
		id := h.end(h.submit(Request{Settings: Settings{Keep: "720h"}}).ID).ID
		request, err := h.RequestDeletion(t.Context(), id, "ann", "wrong")
		if err != nil {
			t.Fatal(err)
		}
		var readers sync.WaitGroup
		for range 4 {
			readers.Go(func() {
				for range 100_000 {
					d, err := h.Details(t.Context(), id)
					if err != nil {
						t.Error(err)
						return
					}
					if d.Tombstone != nil {
						for _, s := range d.Stored {
							if s.Deleted != d.Files {
								t.Errorf("with its tombstone: %+v", s)
							}
						}
						return
					}
					time.Sleep(time.Microsecond) // of the bubble
				}
			})
		}
		if _, err := h.DecideDeletion(t.Context(), request.Request, "ben", true, ""); err != nil {
			t.Fatal(err)
		}
		readers.Wait()
	})
}

func second[T any](_ T, err error) error { return err }

// TestPagesOfArchives: every page once, the newest first.
func TestPagesOfArchives(t *testing.T) {
	bubble(t, newFake(1, 1), nil, func(h *harness) {
		t := h.t
		var want []job.ID
		for range 5 {
			want = append(want, h.end(h.submit(Request{}).ID).ID)
		}
		slices.Reverse(want)
		var got []job.ID
		q := custody.Query{Source: "campus", Course: "5", Limit: 2}
		for {
			page, err := h.Archives(t.Context(), q)
			if err != nil || len(page.Archives) > 2 {
				t.Fatalf("got %+v, %v", page, err)
			}
			for _, x := range page.Archives {
				got = append(got, x.Job)
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}
