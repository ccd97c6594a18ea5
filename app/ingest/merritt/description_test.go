package merritt

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/job"
)

// theirs are the keys by which Merritt's nodes describe an object.
var theirs = map[string]string{"DCsubject": "maps; roads", "DCtitle": "A map", "DataCiteResourceType": "Dataset",
	"retainTargetURL": "true"}

// extend adds keys to a node of Merritt.
func (h *harness) extend(path string, keys map[string]string) {
	h.Helper()
	all := map[string]any{}
	h.ok(json.Unmarshal([]byte(h.program.Text(path)), &all))
	for key, text := range keys {
		all[key] = text
	}
	data, err := json.Marshal(all)
	h.ok(err)
	_, err = h.program.Conn.Set(path, data, -1)
	h.ok(err)
}

// described returns the keys of a node by which it describes an object.
func (h *harness) described(path string) map[string]string {
	h.Helper()
	all, found := map[string]any{}, map[string]string{}
	h.ok(json.Unmarshal([]byte(h.program.Text(path)), &all))
	for key := range theirs {
		if text, is := all[key].(string); is {
			found[key] = text
		}
	}
	return found
}

// The description of an object in a submission to Stagepost is in the nodes of its batch and its job.
func TestDescriptionShown(t *testing.T) {
	h := newHarness(t)
	h.run()
	b, err := h.app.Submit(t.Context(), ingest.Submission{Profile: "maps_content", Submitter: "ann", Filename: "a.txt",
		DublinCore: map[string][]string{"subject": {"maps", "roads"}, "title": {"A map"}}, ResourceType: "Dataset",
		RetainTarget: true}, strings.NewReader("hello"))
	h.ok(err)
	h.ended(b.ID)
	page, err := h.store.List(t.Context(), job.Query{Parent: b.ID})
	h.ok(err)
	for _, path := range []string{"/batches/" + h.node(b.ID) + "/submission",
		"/jobs/" + h.node(page.Jobs[0].ID) + "/configuration"} {
		if diff := cmp.Diff(theirs, h.described(path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// A batch of Merritt has its description in its record.
func TestDescriptionOfBatch(t *testing.T) {
	h := newHarness(t)
	h.ok(os.MkdirAll(filepath.Join(h.queue, "bid-1"), 0o700))
	h.ok(os.WriteFile(filepath.Join(h.queue, "bid-1", "a.txt"), []byte("hello"), 0o600))
	batch, err := h.program.Submit("bid-1", "maps_content", "a.txt", "file")
	h.ok(err)
	h.extend("/batches/"+batch+"/submission", theirs)
	h.extend("/batches/"+batch+"/submission", map[string]string{"title": "Of two\r\nlines ", "digestType": "md5"})
	h.pass()
	id, found, err := h.store.Node(t.Context(), batch)
	h.ok(err)
	if !found {
		t.Fatalf("it has no record: %v", h.f.Findings())
	}
	j := h.get(id)
	var s record.BatchSpec
	h.ok(json.Unmarshal(j.Spec, &s))
	want := map[string][]string{"subject": {"maps; roads"}, "title": {"A map"}}
	if diff := cmp.Diff(want, s.DublinCore); diff != "" || s.ResourceType != "Dataset" || !s.RetainTarget {
		t.Errorf("resource type %q, retain %t (-want +got):\n%s", s.ResourceType, s.RetainTarget, diff)
	}
	if s.Title != "Of two lines" || s.DigestType != "" {
		t.Errorf("got the title %q, and a digest of type %q without a value", s.Title, s.DigestType)
	}
}

// A job of Merritt has the description and the identifiers of its configuration, also without the node of identifiers,
// and its object has them.
func TestDescriptionOfJob(t *testing.T) {
	h := newHarness(t)
	dir := filepath.Join(h.queue, "bid-1", "job-one.txt")
	h.ok(os.MkdirAll(dir, 0o700))
	h.ok(os.WriteFile(filepath.Join(dir, "one.txt"), []byte("one"), 0o600))
	batch, err := h.program.Submit("bid-1", "maps_content", "missing", "batchManifestFile")
	h.ok(err)
	ids, err := h.program.Begin(batch, "bid-1", "maps_content", "one.txt")
	h.ok(err)
	path := "/jobs/" + ids[0]
	h.extend(path+"/configuration", theirs)
	h.extend(path+"/configuration", map[string]string{"objectID": "ark:/99999/fk4a", "localID": "a; b;a"})
	h.ok(h.program.Drop(path + "/identifiers"))
	h.pass()
	id, found, err := h.store.Node(t.Context(), ids[0])
	h.ok(err)
	if !found {
		t.Fatalf("it has no record: %v", h.f.Findings())
	}
	j := h.get(id)
	s, err := record.SpecOf(&j)
	h.ok(err)
	if s.PrimaryID != "ark:/99999/fk4a" || !slices.Equal(s.LocalIDs, []string{"a", "b"}) {
		t.Errorf("identifiers %q %q", s.PrimaryID, s.LocalIDs)
	}
	h.run()
	if j = h.ended(id); j.State != record.Completed {
		t.Fatalf("it is %s: %s", j.State, j.Message)
	}
	m, err := h.app.Metadata(t.Context(), id)
	h.ok(err)
	if m.ARK != "ark:/99999/fk4a" || !strings.Contains(m.DublinCore, "maps; roads") {
		t.Errorf("the object %s has %s", m.ARK, m.DublinCore)
	}
	if diff := cmp.Diff(theirs, h.described(path+"/configuration")); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}
