// Package goldentest compares what a program makes with files of the repository in tests.
package goldentest

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Compare compares a file with the text that it should have, and writes it first if update is set. how is the command
// that writes it.
func Compare(t testing.TB, file string, want []byte, update bool, how string) {
	t.Helper()
	if update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is stale; run %s (-want +got):\n%s", file, how, diff)
	}
}

// Described requires that each property in a JSON schema has a description that ends with a full stop.
func Described(t testing.TB, schema []byte) {
	t.Helper()
	for _, name := range undescribed(t, schema) {
		t.Errorf("%s has no sentence", name)
	}
}

// undescribed lists the properties without one.
func undescribed(t testing.TB, schema []byte) (names []string) {
	t.Helper()
	var doc any
	if err := json.Unmarshal(schema, &doc); err != nil {
		t.Fatal(err)
	}
	var walk func(at string, part any)
	walk = func(at string, part any) {
		m, ok := part.(map[string]any)
		if !ok {
			return
		}
		properties, _ := m["properties"].(map[string]any)
		for name, one := range properties {
			about, _ := one.(map[string]any)["description"].(string)
			if !strings.HasSuffix(about, ".") {
				names = append(names, at+"."+name)
			}
			walk(at+"."+name, one)
		}
		walk(at+".*", m["additionalProperties"])
		walk(at+".*", m["items"])
	}
	walk("", doc)
	return names
}
