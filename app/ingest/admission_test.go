package ingest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/report"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/job/words"
)

var update = flag.Bool("update", false, "write the table in docs/ingest.md")

// Outcomes of an admission besides the causes of failure.
const (
	admitted = "stored"
	warned   = "warning" // stored, and the report has the warning
)

// admission is something doubtful that is handed in, and what becomes of it. In texts, URL stands for the depositor's
// server, which has a.txt, b.txt and more.
type admission struct {
	about   string // for docs/ingest.md
	s       Submission
	text    string
	zip     []string // names and contents: the payload is a container of them
	creator uint16   // of the zip: the system that it was made on
	profile string   // test, strict or given
	want    string   // admitted, warned or a cause
	says    string   // in the warning or the message
	files   []string // of the depositor that are stored, if it matters
	title   string   // that the object gets, if it matters
	check   func(w *harness, j report.Job) string
}

// section is a part of the table.
type section struct {
	title string
	cases []admission
}

func admissions() []section {
	return []section{
		{"Manifests", manifestAdmissions()}, {"Batch manifests", batchAdmissions()}, {"Descriptive files",
			metadataAdmissions()},
		{"Precedence", precedenceAdmissions()}, {"Identifiers", idAdmissions()}, {"Embargo",
			embargoAdmissions()}, {"Names", nameAdmissions()},
		{"Sizes and digests", sizeAdmissions()},
	}
}

// admissionProfiles are those of the cases.
func admissionProfiles() []profile.Profile {
	strict, given := testProfile(), testProfile()
	strict.ID, strict.Strict = "strict", true
	given.ID, given.Names = "given", profile.NamesAsGiven
	return []profile.Profile{testProfile(), strict, given}
}

// TestAdmission submits everything that is odd, hostile or damaged in some way, and compares the results with the table
// of docs/ingest.md.
func TestAdmission(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha", "b.txt": "beta", "one.checkm": "",
		"odd.checkm": "#%checkm_0.7\n"})
	s.put("one.checkm", s.manifest("a.txt"))
	w := start(t, admissionProfiles()...)
	for _, known := range []string{"1", "2"} {
		w.one(Submission{PrimaryID: "ark:/99999/fk4known" + known, LocalIDs: []string{"known-" + known},
			Filename: "f.txt"}, "known "+known)
	}
	n := 0
	t.Run("cases", func(t *testing.T) { // ends when all of them have
		for _, section := range admissions() {
			for i := range section.cases {
				n++
				t.Run(fmt.Sprintf("%s/%d", strings.ReplaceAll(section.title, " ", "_"), i+1), func(t *testing.T) {
					t.Parallel()
					w.admit(t, s, &section.cases[i])
				})
			}
		}
	})
	w.valid()
	if n < 120 {
		t.Errorf("%d cases", n)
	}
	t.Logf("%d cases", n)
}

func (w *harness) admit(t *testing.T, site *site, c *admission) {
	given := c.s
	if given.Profile = c.profile; c.profile == "" {
		given.Profile = "test"
	}
	given.Submitter = "ann"
	text := strings.ReplaceAll(c.text, "URL", site.URL)
	if c.zip != nil {
		text = zipMadeOn(t, c.creator, c.zip...)
		if given.Filename == "" {
			given.Filename = "c.zip"
		}
	}
	b, err := w.Submit(t.Context(), given, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), guard)
	defer cancel()
	if b, err = w.e.Await(ctx, b.ID, func(j *job.Job) bool { return j.Ended }); err != nil {
		t.Fatal(err)
	}
	r, err := w.Report(ctx, b.ID)
	if err != nil {
		t.Fatal(err)
	}
	if problem := c.problem(w, r, b.Cause); problem != "" {
		t.Errorf("%s: %s; got %s", c.about, problem, r.Text())
	}
}

// problem returns what is not as expected.
func (c *admission) problem(w *harness, r report.Batch, cause string) string {
	var j report.Job
	if len(r.Jobs) > 0 {
		j = r.Jobs[0]
	}
	switch c.want {
	case admitted, warned:
		if r.State != record.Completed || r.Failed > 0 || (len(j.Warnings) > 0) != (c.want == warned) {
			return fmt.Sprintf("want %s, warnings are %q", c.want, j.Warnings)
		}
		if c.want == warned && !slices.ContainsFunc(j.Warnings,
			func(s string) bool { return strings.Contains(s, c.says) }) {
			return fmt.Sprintf("no warning has %q", c.says)
		}
	default:
		if len(r.Jobs) > 0 {
			cause = j.Cause
		}
		if r.State != record.Failed || cause != c.want || !strings.Contains(r.Message, c.says) || j.ARK != "" &&
			j.Version > 0 {
			return fmt.Sprintf("want cause %s, and %q", c.want, c.says)
		}
		return ""
	}
	if c.files != nil {
		var got []string
		for name := range w.files(j.ARK, fmt.Sprintf("v%d", j.Version)) {
			if own, ok := strings.CutPrefix(name, "producer/"); ok {
				got = append(got, own)
			}
		}
		slices.Sort(got)
		if want := slices.Sorted(slices.Values(c.files)); !slices.Equal(got, want) {
			return fmt.Sprintf("its files are %q, want %q", got, want)
		}
	}
	if c.title != "" && j.Title != c.title {
		return fmt.Sprintf("its title is %q, want %q", j.Title, c.title)
	}
	q := job.Query{Words: words.Sought(c.title), Kinds: []job.Kind{record.JobKind}}
	if page, err := w.store.List(w.t.Context(), q); c.title != "" && (err != nil || len(page.Jobs) == 0) {
		return fmt.Sprintf("no job is found by the words of %q: %v", c.title, err)
	}
	if c.check != nil {
		return c.check(w, j)
	}
	return ""
}

// row is the line of the table.
func (c *admission) row() string {
	outcome := ""
	switch c.want {
	case admitted:
		outcome = "stored"
	case warned:
		outcome = "stored, with a warning: " + c.says
	default:
		outcome = "refused (`" + c.want + "`): " + c.says
	}
	if c.profile == "strict" {
		outcome += " (profile with `strict`)"
	}
	if c.profile == "given" {
		outcome += " (profile with `names: as-given`)"
	}
	return "| " + c.about + " | " + strings.ReplaceAll(outcome, "|", `\|`) + " |\n"
}

// TestAdmissionIsDocumented: docs/ingest.md has the results of TestAdmission.
func TestAdmissionIsDocumented(t *testing.T) {
	const file, begin, end = "../../docs/ingest.md", "<!-- table: go test ./app/ingest -run Documented -update -->\n",
		"<!-- end of the table -->\n"
	var b strings.Builder
	seen := map[string]bool{}
	for _, section := range admissions() {
		fmt.Fprintf(&b, "\n### %s\n\n| What is handed in | What becomes of it |\n|---|---|\n", section.title)
		for i := range section.cases {
			c := &section.cases[i]
			if b.WriteString(c.row()); seen[c.about] || c.about == "" || c.want != admitted && c.says == "" {
				t.Errorf("%s: %q is there twice, or is empty", section.title, c.about)
			}
			seen[c.about] = true
		}
	}
	b.WriteString("\n")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, found := strings.Cut(rest, end)
	if !ok || !found {
		t.Fatal("the marks of the table are missing")
	}
	want := before + begin + b.String() + end + after
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(text) {
		t.Error("the table is not that of the cases: go test ./app/ingest -run Documented -update")
	}
}
