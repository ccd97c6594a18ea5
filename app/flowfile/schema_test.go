package flowfile

import (
	"bytes"
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stagepost/stagepost/internal/goldentest"
)

var update = flag.Bool("update", false, "write docs/flowfile.schema.json instead of comparing it")

const published = "../../docs/flowfile.schema.json"

// TestSchemaIsPublished holds the published schema against the tables; with -update it writes it.
func TestSchemaIsPublished(t *testing.T) {
	goldentest.Compare(t, published, Schema(), *update, "go test ./app/flowfile -update")
}

// TestSchemaFits holds examples and mistakes against the schema.
func TestSchemaFits(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(SchemaID, doc); err != nil {
		t.Fatal(err)
	}
	schema := c.MustCompile(SchemaID)
	validate := func(text string) error {
		root, err := grow([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		json, err := compactJSON(root.Plain())
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(json))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(v)
	}
	files, _ := filepath.Glob(examples + "/*.yaml")
	for _, file := range files {
		if err := validate(read1(t, file)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	for _, text := range []string{
		"linear: []", "flow: f", "{flow: f, linear: [], graph: []}", "{flow: f, linear: [{task: a, rum: x}]}",
		"{flow: a b, linear: []}",
		"{flow: f, linear: [{each: a, task: b}]}", "{flow: f, linear: [{task: a, sleep: soon}]}", "{flow: f, graph: [{task: a, when: {}}]}",
	} {
		if validate(text) == nil {
			t.Errorf("the schema takes %s", text)
		}
	}
}

// TestEveryKeyIsDescribed needs a sentence for each key, and its mention in the reference.
func TestEveryKeyIsDescribed(t *testing.T) {
	page := read1(t, "../../docs/flows.md")
	for _, table := range []table{fileTable, partTable, eachTable, revertTable, inputKeys, retryKeys, waitKeys,
		attemptKeys, httpKeys, providesKeys, testKeys} {
		for _, k := range table {
			if !strings.HasSuffix(k.doc, ".") {
				t.Errorf("the doc of %s is no sentence: %q", k.name, k.doc)
			}
			if !strings.Contains(page, "`"+k.name) {
				t.Errorf("docs/flows.md does not mention %s", k.name)
			}
		}
	}
}
