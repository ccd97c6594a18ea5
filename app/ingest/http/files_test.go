package ingesthttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/orphans"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
)

// view is an ingest with one job, "ing_1", in which every field is filled.
type view struct {
	adopted ingest.Adoption
	fixed   orphans.Fix
	broken  bool // its manifest breaks off
}

var someday = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func (v *view) one(id job.ID) error {
	if id != "ing_1" {
		return job.Errorf(job.NotFound, "get", id, "there is no such job")
	}
	return nil
}

func (v *view) Manifest(_ context.Context, id job.ID) (io.ReadCloser, error) {
	text := io.Reader(strings.NewReader(strings.Repeat("#%checkm_0.7\n", 20_000)))
	if v.broken {
		text = io.MultiReader(text, breaking{})
	}
	return io.NopCloser(text), v.one(id)
}

// breaking is a disk that fails.
type breaking struct{}

func (breaking) Read([]byte) (int, error) { return 0, errors.New("the disk fails") }

func (v *view) JobFiles(_ context.Context, id job.ID, after string, limit int) (ingest.JobFiles, error) {
	f := ingest.JobFile{Path: fmt.Sprint(after, limit), Size: -1, Digests: map[string]string{"md5": "0"},
		Type: "text/plain", From: "https://x", State: "wanted"}
	return ingest.JobFiles{Job: id, State: "Pending", Source: "manifest", Files: []ingest.JobFile{f},
		Next: "manifest:1", Note: "n"}, v.one(id)
}

func (v *view) Metadata(_ context.Context, id job.ID) (ingest.Metadata, error) {
	return ingest.Metadata{Job: id, ARK: "ark:/1/2", Version: 3, Source: "storage", ERC: "erc:", DublinCore: "<x/>",
		Note: "n"}, v.one(id)
}

func (v *view) Submission(_ context.Context, id job.ID) (ingest.Handed, error) {
	n := 1
	s := ingest.Submission{Profile: "p", Title: "t", Priority: &n, LocalIDs: []string{"l"}}
	return ingest.Handed{Batch: id, Submission: s, Type: "file", Size: 2, SHA256: "0", Staged: true, Jobs: 1,
		Note: "n"}, v.one(id)
}

func (v *view) Named(_ context.Context, name string) ([]job.ID, error) {
	if name == "ark:/1/2" {
		return []job.ID{"ing_1"}, nil
	}
	return nil, nil
}

func (v *view) Orphans(context.Context) (api.Orphans, error) {
	o := api.Orphan{Rule: "lock", Name: "object x", What: "w", Job: "ing_1", Since: someday,
		Seconds: 1, Level: "FAIL", Deletable: true}
	return api.Orphans{At: someday, Orphans: []api.Orphan{o}, Deletable: 1, Cut: []string{"c"}}, nil
}

func (v *view) FixOrphans(_ context.Context, f orphans.Fix) (api.FixedOrphans, error) {
	v.fixed = f
	return api.FixedOrphans{Removed: []api.Orphan{{Rule: "lock"}}, Failed: map[string]string{"a": "b"}}, nil
}

func (v *view) Locations(context.Context) ([]ingest.Location, error) {
	return []ingest.Location{{Dir: "d", Path: "/d", Location: "l", Installation: "i", Since: someday, State: "refused",
		Reason: "r", Remedy: "m", Profiles: []string{"p"}}}, nil
}

func (v *view) Adopt(ctx context.Context, a ingest.Adoption) (ingest.Location, error) {
	v.adopted = a
	all, err := v.Locations(ctx)
	return all[0], err
}

// sameShape checks that what the server writes is what the client reads: every field, and no other.
func sameShape[C, S any](t *testing.T, sent S) {
	t.Helper()
	text, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	var got C
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatalf("%T to %T: %v in %s", sent, got, err, text)
	}
	again, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var a, b map[string]json.RawMessage
	if json.Unmarshal(text, &a) != nil || json.Unmarshal(again, &b) != nil {
		t.Fatal("not objects")
	}
	if diff := cmp.Diff(text, again); diff != "" {
		t.Errorf("%T is not %T: %s\n%s", sent, got, text, again)
	}
}

func TestShapes(t *testing.T) {
	v := &view{}
	files, _ := v.JobFiles(t.Context(), "ing_1", "", 1)
	sameShape[client.JobFiles](t, files)
	metadata, _ := v.Metadata(t.Context(), "ing_1")
	sameShape[client.Metadata](t, metadata)
	handed, _ := v.Submission(t.Context(), "ing_1")
	sameShape[client.Handed](t, handed)
	found, _ := v.Orphans(t.Context())
	sameShape[client.Orphans](t, found)
	locations, _ := v.Locations(t.Context())
	sameShape[client.StorageLocation](t, locations[0])
	fixed, _ := v.FixOrphans(t.Context(), orphans.Fix{})
	sameShape[client.FixedOrphans](t, fixed)
}

// TestFileRoutes goes through the routes that show files and orphans, and refuses invalid requests.
func TestFileRoutes(t *testing.T) {
	v := &view{}
	w := open(t, func(o *options) { o.Details = v }, nil)
	f, err := w.Client.JobFiles(t.Context(), "ing_1", "manifest:5", 7)
	if err != nil || len(f.Files) != 1 || f.Files[0].Path != "manifest:57" || f.Next != "manifest:1" {
		t.Errorf("got %+v, %v", f, err)
	}
	if m, err := w.Client.Metadata(t.Context(), "ing_1"); err != nil || m.ERC != "erc:" {
		t.Errorf("got %+v, %v", m, err)
	}
	if h, err := w.Client.Submission(t.Context(), "ing_1"); err != nil || h.Submission.Title != "t" {
		t.Errorf("got %+v, %v", h, err)
	}
	text, err := w.Client.Manifest(t.Context(), "ing_1")
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(text)
	if err != nil || len(all) != 13*20_000 {
		t.Errorf("got %d bytes, %v", len(all), err)
	}
	_ = text.Close()
	for _, path := range []string{"manifest", "files", "metadata"} {
		for _, id := range []string{"ing_2", "..%2f..%2fetc%2fpasswd", "%2e%2e", "a%00b"} {
			answer, body := w.Ask(w.Request(http.MethodGet, "/api/v1/ingest/jobs/"+id+"/"+path, ""))
			if answer.StatusCode != http.StatusNotFound && answer.StatusCode/100 != 3 {
				t.Errorf("%s of %s: got %s: %.100s", path, id, answer.Status, body)
			}
		}
	}
	w.Problem(w.Request(http.MethodGet, "/api/v1/ingest/jobs/ing_1/files?limit=1001", ""), http.StatusBadRequest,
		job.Invalid)

	o, err := w.Client.Orphans(t.Context())
	if err != nil || len(o.Orphans) != 1 || o.Deletable != 1 {
		t.Errorf("got %+v, %v", o, err)
	}
	n := 1
	if _, err := w.Client.FixOrphans(t.Context(), client.FixOrphans{Expect: &n, Actor: "ann",
		Note: "why"}); err != nil || v.fixed != (orphans.Fix{Expect: 1, Actor: "ann", Note: "why"}) {
		t.Errorf("got %+v, %v", v.fixed, err)
	}
	for _, body := range []string{`{}`, `{"expect":1}`, `{"note":"x"}`, `{"expect":-1,"note":"x"}`,
		`{"expect":1,"note":"x","all":true}`} {
		w.Problem(w.Request(http.MethodPost, "/api/v1/orphans", body), http.StatusBadRequest, job.Invalid)
	}
	locations, err := w.Client.StorageLocations(t.Context())
	if err != nil || len(locations) != 1 || locations[0].State != ingest.LocationRefused {
		t.Errorf("got %+v, %v", locations, err)
	}
	adopted, err := w.Client.AdoptLocation(t.Context(), client.Adoption{Dir: "d", Actor: "ann", Note: "why"})
	if err != nil || adopted.Dir != "d" || v.adopted != (ingest.Adoption{Dir: "d", Actor: "ann", Note: "why"}) {
		t.Errorf("got %+v, %+v, %v", adopted, v.adopted, err)
	}
	for _, body := range []string{`{}`, `{"dir":"d"}`, `{"note":"x"}`, `{"dir":"d","note":"x","all":true}`} {
		w.Problem(w.Request(http.MethodPost, "/api/v1/storage", body), http.StatusBadRequest, job.Invalid)
	}
}

// TestManifestThatBreaksOff must not appear complete.
func TestManifestThatBreaksOff(t *testing.T) {
	w := open(t, func(o *options) { o.Details = &view{broken: true} }, nil)
	text, err := w.Client.Manifest(t.Context(), "ing_1")
	if err == nil {
		_, err = io.ReadAll(text)
		_ = text.Close()
	}
	if err == nil {
		t.Error("half a manifest was taken for a whole one")
	}
}

// TestStuckRoute reads its filters, and refuses invalid requests.
func TestStuckRoute(t *testing.T) {
	w := open(t, nil, nil)
	w.Post(engine.Order{})
	s, err := w.Client.Stuck(t.Context(), client.StuckQuery{Kinds: []job.Kind{"test.letter"}, Factor: 2, Limit: 5})
	if err != nil || s.Looked != 1 || len(s.Stuck) != 0 {
		t.Errorf("got %+v, %v", s, err)
	}
	for _, q := range []string{"factor=0", "factor=-1", "factor=NaN", "factor=Inf", "factor=x", "limit=0", "limit=1001",
		"kind=test.nothing"} {
		w.Problem(w.Request(http.MethodGet, "/api/v1/stuck?"+q, ""), http.StatusBadRequest, job.Invalid)
	}
}

// TestQueue sums up by group and state, and counts what holds concern.
func TestQueue(t *testing.T) {
	w := open(t, nil, nil)
	for i := range 6 {
		j := w.Post(engine.Order{Group: []string{"maps", "books"}[i%2], Owner: "ann", Bytes: 10})
		if i < 2 {
			if _, err := w.Client.Do(t.Context(), j.ID, "hold", client.Act{Note: "x"}); err != nil {
				t.Fatal(err)
			}
		}
		if i == 1 {
			if _, err := w.Client.Do(t.Context(), j.ID, "delete", client.Act{Confirm: true}); err != nil {
				t.Fatal(err)
			}
		}
	}
	q, err := w.Client.Queue(t.Context(), client.QueueQuery{})
	if err != nil {
		t.Fatal(err)
	}
	row := func(group string, state lc.State, jobs int64) client.QueueRow {
		return client.QueueRow{Group: group, Kind: "test.letter", State: state, Jobs: jobs, Bytes: 10 * jobs}
	}
	want := []client.QueueRow{row("books", "Posted", 2), row("books", "Burnt", 1), row("maps", "Posted", 2),
		row("maps", "Held", 1)}
	if diff := cmp.Diff(want, q.Rows); diff != "" {
		t.Error(diff)
	}
	total := func(state lc.State, jobs int64) client.QueueTotal {
		return client.QueueTotal{Kind: "test.letter", State: state, Jobs: jobs, Bytes: 10 * jobs}
	}
	states := []client.QueueTotal{total("Posted", 4), total("Held", 1), total("Burnt", 1)}
	if diff := cmp.Diff(states, q.States); diff != "" || q.Total.Jobs != 6 || q.Total.Bytes != 60 {
		t.Errorf("total %+v: %s", q.Total, diff)
	}
	if q, err := w.Client.Queue(t.Context(), client.QueueQuery{Group: "books", Ended: new(bool)}); err != nil ||
		q.Total.Jobs != 2 {
		t.Errorf("got %+v, %v", q, err)
	}
	for _, s := range []job.Scope{{Group: "maps"}, {Owner: "ann"}, {Owner: "bob"}} {
		if _, err := w.Client.Hold(t.Context(), client.Hold{Scope: s, Who: "op", Why: "flood"}); err != nil {
			t.Fatal(err)
		}
	}
	h, err := w.Client.QueueHolds(t.Context())
	if err != nil || len(h.Holds) != 3 || h.Holds[0].Jobs != 3 || h.Holds[1].Jobs != 5 || h.Holds[2].Jobs != 0 ||
		h.Holds[0].Why != "flood" {
		t.Errorf("got %+v, %v", h.Holds, err)
	}
	if diff := cmp.Diff([]client.QueueRow{row("maps", "Held", 1)}, h.Held); diff != "" {
		t.Error(diff)
	}
	if b, err := w.Client.QueueBatches(t.Context(), client.QueueQuery{}); err != nil || len(b.Batches) != 0 {
		t.Errorf("got %+v, %v", b, err)
	}
}

// TestAudit filters the list, over more than one page of the store.
func TestAudit(t *testing.T) {
	w := open(t, nil, nil)
	j := w.Post(engine.Order{})
	if _, err := w.Client.Do(t.Context(), j.ID, "hold",
		client.Act{Actor: "ann", Note: "flood", Version: 1}); err != nil {
		t.Fatal(err)
	}
	for i := range 1500 {
		if err := w.Operator().Audit(t.Context(),
			operator.Entry{Actor: "bob", Event: "reload", Object: fmt.Sprint(i), Note: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	get := func(q client.AuditQuery, want int) []client.Audit {
		t.Helper()
		a, err := w.Client.Audit(t.Context(), q)
		if err != nil || len(a.Entries) != want || a.Cut {
			t.Errorf("%+v: got %d entries, %v", q, len(a.Entries), err)
		}
		return a.Entries
	}
	if e := get(client.AuditQuery{}, 50); e[49].Object != "1499" || e[0].Object != "1450" {
		t.Errorf("the newest, oldest first: got %s to %s", e[0].Object, e[49].Object)
	}
	if e := get(client.AuditQuery{Actor: "ann"}, 1); len(e) == 1 &&
		(e[0].Job != j.ID || e[0].Event != "hold" || e[0].Note != "flood" || e[0].Seen != 1 || e[0].By != lc.Operator) {
		t.Errorf("got %+v", e[0])
	}
	get(client.AuditQuery{Job: j.ID, Event: "hold", Limit: 1}, 1)
	get(client.AuditQuery{Job: "let_nobody"}, 0)
	get(client.AuditQuery{Event: "reload", Limit: 1000}, 1000)
	all, after := 0, "1"
	for after != "" {
		a, err := w.Client.Audit(t.Context(), client.AuditQuery{After: after, Actor: "bob"})
		if err != nil {
			t.Fatal(err)
		}
		all, after = all+len(a.Entries), a.Next
	}
	if all != 1500 {
		t.Errorf("going forward: got %d", all)
	}
	for _, q := range []string{"limit=0", "limit=1001", "after=-1", "last=2", "who=ann"} {
		w.Problem(w.Request(http.MethodGet, "/api/v1/audit?"+q, ""), http.StatusBadRequest, job.Invalid)
	}
}
