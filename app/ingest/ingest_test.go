package ingest

import (
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/record"
)

func TestBatchOfManifests(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha", "b/c.txt": "gamma", "d.txt": "delta"})
	s.put("one.checkm", s.manifest("a.txt", "b/c.txt"))
	s.put("two.checkm", s.manifest("d.txt"))
	s.put("three.checkm", s.manifest("missing.txt"))
	w := start(t)
	r := w.ingest(Submission{Filename: "batch.checkm"}, manifest("mrt-batch-manifest",
		s.row("one.checkm", "l1;l2", "First"), s.row("two.checkm", "l3", "Second"), s.row("three.checkm", "l4",
			"Third")))
	if r.State != record.Failed || r.Type != TypeBatchManifest || r.Completed != 2 || r.Failed != 1 {
		t.Fatalf("got %s", r.Text())
	}
	if j := r.Jobs[2]; j.Cause != CauseNotFound || j.FailedIn != record.Estimating ||
		!strings.Contains(j.Message, "missing.txt") {
		t.Errorf("got %+v", j)
	}
	first := r.Jobs[0]
	if first.Title != "First" || first.Version != 1 || first.ARK == "" || strings.Join(first.LocalIDs, " ") != "l1 l2" {
		t.Errorf("got %+v", first)
	}
	got := w.files(first.ARK, "v1")
	if got["producer/a.txt"] != "alpha" || got["producer/b/c.txt"] != "gamma" {
		t.Errorf("got %v", got)
	}
	if !strings.Contains(got["system/mrt-erc.txt"], "what: First") ||
		!strings.Contains(got["system/mrt-dc.xml"], first.ARK) {
		t.Errorf("got %s and %s", got["system/mrt-erc.txt"], got["system/mrt-dc.xml"])
	}
	o := w.object(first.ARK)
	if o.Collection != "maps" || o.Creator != "A. Person" || len(o.Versions) != 1 || o.Versions[0].Files != len(got) {
		t.Errorf("got %+v", o)
	}
	if byID, err := w.Objects(t.Context(), ObjectQuery{LocalID: "l3"}); err != nil || len(byID) != 1 ||
		byID[0].Title != "Second" {
		t.Errorf("got %+v, %v", byID, err)
	}
	if bySum, err := w.Objects(t.Context(), ObjectQuery{Digest: sha256Hex("gamma")}); err != nil || len(bySum) != 1 ||
		bySum[0].ARK != first.ARK {
		t.Errorf("got %+v, %v", bySum, err)
	}
	w.valid()
}
