package checkm_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/format/checkm"
)

func TestLookup(t *testing.T) {
	const registry = "http://uc3.cdlib.org/registry/"
	for url, want := range map[string]*checkm.Profile{
		"ingest/manifest/mrt-ingest-manifest":            checkm.Object,
		"mrt/mrt-ingest-manifest":                        checkm.Object,
		"ingest/manifest/mrt-batch-manifest":             checkm.BatchManifests,
		"mrt/mrt-batch-manifest":                         checkm.BatchManifests,
		"ingest/manifest/mrt-container-batch-manifest":   checkm.BatchContainers,
		"ingest/manifest/mrt-single-file-batch-manifest": checkm.BatchFiles,
		"store/manifest/mrt-object-manifest":             checkm.ContainerObject,
		"mrt/mrt-object-manifest":                        checkm.ContainerObject,
		"store/manifest/mrt-add-manifest":                checkm.Add,
		"mrt/mrt-add-manifest":                           checkm.Add,
		"mrt/mrt-container-batch-manifest":               nil,
		"ingest/manifest/mrt-ingest-manifest/":           nil,
		"":                                               nil,
	} {
		got, ok := checkm.Lookup(registry + url)
		if got != want || ok != (want != nil) {
			t.Errorf("%s: got %v, %v", url, got, ok)
		}
	}
	urls := 0
	for _, p := range checkm.Profiles() {
		if p.URL() != p.URLs()[0] {
			t.Errorf("%v: URL is %s", p, p.URL())
		}
		urls += len(p.URLs())
	}
	if urls != 10 {
		t.Errorf("%d URLs, want 10", urls)
	}
}

func TestColumns(t *testing.T) {
	object := []string{"fileUrl", "hashAlgorithm", "hashValue", "fileSize", "fileLastModified", "fileName", "mimeType"}
	batch := append(object[:6:6], "primaryIdentifier", "localIdentifier", "creator", "title", "date")
	want := map[string][]string{
		"mrt-ingest-manifest": object, "mrt-add-manifest": object, "mrt-batch-manifest": batch,
		"mrt-container-batch-manifest":   batch,
		"mrt-single-file-batch-manifest": batch,
		"mrt-object-manifest": {"fileName", "hashAlgorithm", "hashValue", "fileSize", "fileLastModified",
			"mimeType"},
	}
	got := map[string][]string{}
	for _, p := range checkm.Profiles() {
		for _, c := range p.Columns() {
			got[p.Name()] = append(got[p.Name()], c.String())
		}
		if p.Batch() != (len(p.Columns()) == 11) || p.Has(checkm.FileURL) != (p != checkm.ContainerObject) {
			t.Errorf("%v: batch %v, URL %v", p, p.Batch(), p.Has(checkm.FileURL))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := checkm.Column(99).String(); got != "unknown" {
		t.Errorf("column 99 is %s", got)
	}
}
