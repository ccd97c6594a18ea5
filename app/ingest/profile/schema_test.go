package profile

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/internal/goldentest"
)

var update = flag.Bool("update", false,
	"write docs/profile.schema.json and the fields in docs/ingest.md instead of comparing them")

const published = "../../../docs/profile.schema.json"

// TestSchemaIsPublished holds the published schema against the struct; with -update it writes it.
func TestSchemaIsPublished(t *testing.T) {
	goldentest.Compare(t, published, Schema(), *update, "go test ./app/ingest/profile -update")
}

// TestFieldsAreDocumented holds the table of fields in docs/ingest.md against the struct; with -update it writes it.
func TestFieldsAreDocumented(t *testing.T) {
	const page = "../../../docs/ingest.md"
	begin, end := "<!-- profile: go test ./app/ingest/profile -update -->\n", "<!-- end of the profile -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	got, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("docs/ingest.md lacks %s or %s", begin, end)
	}
	want := "\n| field | default | meaning |\n|---|---|---|\n" + fieldRows("", profileType) + "\n"
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/ingest.md is stale; run go test ./app/ingest/profile -update (-struct +page):\n%s", diff)
	}
}

// fieldRows gives a row for each field of a struct, and for those below it.
func fieldRows(above string, of reflect.Type) string {
	var b strings.Builder
	for _, f := range fieldsOf(of) {
		name, note := above+f.name, f.doc
		if f.list {
			name += "[]"
		}
		if f.enum != nil {
			note += " One of `" + strings.Join(f.enum, "`, `") + "`."
		}
		if f.max != "" {
			note += " From " + f.min + " to " + f.max + "."
		}
		def := ""
		switch {
		case f.need:
			def = "required"
		case f.def != "":
			def = "`" + f.def + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, def, note)
		if f.branch() {
			b.WriteString(fieldRows(name+".", f.kind))
		}
	}
	return b.String()
}

// TestEveryFieldIsDescribed requires a sentence for each key, and a name for each exported field.
func TestEveryFieldIsDescribed(t *testing.T) {
	var look func(at string, of reflect.Type)
	look = func(at string, of reflect.Type) {
		exported := 0
		for i := range of.NumField() {
			if of.Field(i).IsExported() {
				exported++
			}
		}
		fields := fieldsOf(of)
		if len(fields) != exported {
			t.Errorf("%s: %d of %d fields have a name", at, len(fields), exported)
		}
		for _, f := range fields {
			if !strings.HasSuffix(f.doc, ".") {
				t.Errorf("%s%s: its doc is no sentence: %q", at, f.name, f.doc)
			}
			if f.branch() {
				look(at+f.name+".", f.kind)
			}
		}
	}
	look("", profileType)
}

// TestSchemaSaysWhatTheCodeDoes compares the defaults in the tags with the constants of the package.
func TestSchemaSaysWhatTheCodeDoes(t *testing.T) {
	p, _ := (*Set)(nil).Get("")
	if p.Limits.Files != DefaultFiles || p.Limits.Bytes != DefaultBytes || p.Suppress != SuppressNone ||
		!slices.Equal(p.Storage, []string{"storage"}) {
		t.Errorf("got %+v", p)
	}
	var s struct {
		Schema     string `json:"$schema"`
		Required   []string
		Properties map[string]struct {
			Properties map[string]struct{ Default any }
		}
	}
	if err := json.Unmarshal(Schema(), &s); err != nil {
		t.Fatal(err)
	}
	if s.Schema != "https://json-schema.org/draft/2020-12/schema" || !slices.Equal(s.Required, []string{"id"}) {
		t.Errorf("got %+v", s)
	}
	if got := s.Properties["limits"].Properties["files"].Default; got != float64(DefaultFiles) {
		t.Errorf("got %v", got)
	}
}
