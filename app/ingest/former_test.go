package ingest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/report"
)

// described checks what the system files of a version have, and what they lack (with a leading !), name by name.
func (w *harness) described(j report.Job, version string, want map[string][]string) {
	w.t.Helper()
	files := w.files(j.ARK, version)
	for name, all := range want {
		for _, text := range all {
			text, lacks := strings.CutPrefix(text, "!")
			if strings.Contains(files["system/"+name], text) == lacks {
				w.t.Errorf("%s: %s: %q; lacks it: %t\n%s", version, name, text, !lacks, files["system/"+name])
			}
		}
	}
}

// embargoOf gives the embargo that the record of a job has.
func (w *harness) embargoOf(j report.Job) string {
	w.t.Helper()
	one, err := w.e.Store().Get(w.t.Context(), j.Job)
	if err != nil {
		w.t.Fatal(err)
	}
	var d record.JobData
	if err := json.Unmarshal(one.Data, &d); err != nil {
		w.t.Fatal(err)
	}
	return d.Identity.Embargo
}

// TestUpdateKeepsTheFormOfBefore updates an object that a form describes: what the update leaves out stays, and what it
// has goes first.
func TestUpdateKeepsTheFormOfBefore(t *testing.T) {
	w := start(t)
	ids := []string{"upd-1"}
	update := func(s Submission) report.Job {
		s.LocalIDs, s.Update, s.Filename = ids, true, "b.txt"
		return w.one(s, "b")
	}
	update(Submission{Title: "A title", Creator: "A. Person", Date: "2001", ResourceType: "Image/Photo",
		DublinCore: map[string][]string{"subject": {"s1", "s2"}, "rights": {"free"}}, Embargo: "2035-01-01"})
	j := update(Submission{})
	kept := map[string][]string{
		"mrt-ingest.txt":   {"embargoEndDate: 2035-01-01T00:00:00Z\n", "resourceType: Image/Photo\n"},
		"mrt-dc.xml":       {">s1<", ">s2<", ">free<", "<dc:type>Image<", ">A title<"},
		"mrt-datacite.xml": {`resourceTypeGeneral="Image">Photo<`},
	}
	w.described(j, "v2", kept)
	if got := w.embargoOf(j); got != "2035-01-01T00:00:00Z" {
		t.Errorf("the record has the embargo %q", got)
	}
	j = update(Submission{Title: "Another", ResourceType: "Dataset", Embargo: "none",
		DublinCore: map[string][]string{"subject": {"s3"}}})
	changed := map[string][]string{
		"mrt-ingest.txt": {"embargoEndDate: none\n", "resourceType: Dataset\n"},
		"mrt-dc.xml": {">s3<", "!>s1<", "!>s2<", ">free<", "<dc:type>Dataset<", "!>Image<", ">Another<",
			"!>A title<"},
		"mrt-datacite.xml": {`resourceTypeGeneral="Dataset">Dataset<`},
	}
	w.described(j, "v3", changed)
	w.described(update(Submission{}), "v4", changed)
	j = w.one(Submission{LocalIDs: ids, Filename: "c.txt"}, "control: no update")
	w.described(j, "v5", map[string][]string{"mrt-ingest.txt": {"!embargoEndDate", "!resourceType"},
		"mrt-dc.xml": {"!>free<"}})
}

// TestUpdateKeepsTheDescriptiveFiles updates an object that files describe: those that stay count, those that are
// replaced or deleted do not.
func TestUpdateKeepsTheDescriptiveFiles(t *testing.T) {
	core := func(subject string) string {
		return `<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Of the file</dc:title>` +
			`<dc:subject>` + subject + `</dc:subject></metadata>`
	}
	cite := `<resource xmlns="http://datacite.org/schema/kernel-4"><titles><title>Cited</title></titles>` +
		`</resource>`
	first := []string{"a", "1", "mrt-embargo.txt", "embargoEndDate: 2035-01-01\n", "mrt-dc.xml", core("old"),
		"mrt-datacite.xml", cite}
	form := Submission{Creator: "A. Person", Date: "2001", DublinCore: map[string][]string{"rights": {"free"}}}
	const until, kept = "2035-01-01T00:00:00Z", "embargoEndDate: 2035-01-01T00:00:00Z\n"
	for name, c := range map[string]struct {
		files   []string
		embargo string
		want    map[string][]string
	}{
		"a plain file": {[]string{"b", "2"}, until, map[string][]string{"mrt-ingest.txt": {kept},
			"mrt-dc.xml": {">old<", ">free<"}, "mrt-datacite.xml": {"!<"}}},
		"other files": {[]string{"mrt-embargo.txt", "embargoEndDate: none\n", "mrt-dc.xml", core("new")}, "none",
			map[string][]string{"mrt-ingest.txt": {"embargoEndDate: none\n"},
				"mrt-dc.xml": {">new<", "!>old<", ">free<"}}},
		"deleted": {[]string{"mrt-delete.txt", "mrt-embargo.txt\nmrt-dc.xml\nmrt-datacite.xml\n"}, "",
			map[string][]string{"mrt-ingest.txt": {"!embargoEndDate"}, "mrt-dc.xml": {"!>old<", ">free<"},
				"mrt-datacite.xml": {"<title>Cited<"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			s := form
			s.Filename, s.LocalIDs = "x.zip", []string{"l1"}
			w.one(s, zipOf(t, first...))
			j := w.one(Submission{Filename: "x.zip", LocalIDs: s.LocalIDs, Update: true}, zipOf(t, c.files...))
			w.described(j, "v2", c.want)
			if got := w.embargoOf(j); got != c.embargo {
				t.Errorf("the record has the embargo %q, want %q", got, c.embargo)
			}
		})
	}
}

// TestEmbargoOfALaterForm: an embargo that a form gave after mrt-embargo.txt stays when an update deletes the file. The
// control in TestUpdateKeepsTheDescriptiveFiles has no later form.
func TestEmbargoOfALaterForm(t *testing.T) {
	w := start(t)
	ids := []string{"emb-1"}
	w.one(Submission{Filename: "x.zip", LocalIDs: ids},
		zipOf(t, "a", "1", "mrt-embargo.txt", "embargoEndDate: 2035-01-01\n"))
	w.one(Submission{Filename: "b.txt", LocalIDs: ids, Update: true, Embargo: "2040-01-01"}, "b")
	deletes := zipOf(t, "mrt-delete.txt", "mrt-embargo.txt\n")
	j := w.one(Submission{Filename: "x.zip", LocalIDs: ids, Update: true}, deletes)
	w.described(j, "v3", map[string][]string{"mrt-ingest.txt": {"embargoEndDate: 2040-01-01T00:00:00Z\n"}})
	if got := w.embargoOf(j); got != "2040-01-01T00:00:00Z" {
		t.Errorf("the record has the embargo %q", got)
	}
}

// TestLongFacts: a file of facts that is too long is refused, not cut: its last line may be the embargo. The control is
// a long one that is accepted.
func TestLongFacts(t *testing.T) {
	for size, fine := range map[int]bool{2 << 20: true, 16 << 20: false} {
		for _, fill := range []string{"note: " + strings.Repeat("n", size) + "\n",
			strings.Repeat("note: n\n", size/8)} {
			facts, err := readFacts(strings.NewReader(fill + "embargoEndDate: 2035-01-01\n"))
			if (err == nil) != fine || fine && facts[factEmbargo] != "2035-01-01" {
				t.Errorf("%d bytes: got the embargo %q, %v", size, facts[factEmbargo], err)
			}
		}
	}
}

// TestFormerEmbargo: a fact that is no date fails the update, unless mrt-embargo.txt is still there.
func TestFormerEmbargo(t *testing.T) {
	f := &former{version: &inventory.Version{Number: 3}}
	for fact, want := range map[string]string{"": "", "2035-01-01": "2035-01-01T00:00:00Z", "none": "none"} {
		if got, err := formerEmbargo(f, fact, false); err != nil || got != want {
			t.Errorf("%q: got %q, %v", fact, got, err)
		}
	}
	_, err := formerEmbargo(f, "next spring", false)
	if err == nil || !strings.Contains(err.Error(), "the embargo of version 3") {
		t.Errorf("got %v", err)
	}
}

// TestResourceTypeOfAnUnknownObject keeps a resource type where too little is known for a DataCite record. A type of
// Dublin Core goes before it.
func TestResourceTypeOfAnUnknownObject(t *testing.T) {
	w := start(t)
	j := w.one(Submission{Filename: "a.txt", ResourceType: "Image/Photo"}, "a")
	w.described(j, "v1", map[string][]string{"mrt-ingest.txt": {"resourceType: Image/Photo\n"},
		"mrt-dc.xml": {"<dc:type>Image<"}, "mrt-datacite.xml": {"!<"}})
	j = w.one(Submission{Filename: "b.txt", ResourceType: "Image/Photo",
		DublinCore: map[string][]string{"type": {"StillImage"}}}, "b")
	w.described(j, "v1", map[string][]string{"mrt-ingest.txt": {"resourceType: Image/Photo\n"},
		"mrt-dc.xml": {"<dc:type>StillImage<", "!<dc:type>Image<"}})
}
