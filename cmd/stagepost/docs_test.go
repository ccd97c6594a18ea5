package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/docs"
	"github.com/stagepost/stagepost/host/cli/reference"
	"github.com/stagepost/stagepost/lifecycle"
)

var update = flag.Bool("update", false, "write the generated pages instead of comparing them")

// TestPages holds the generated pages against the program; with -update it writes them.
func TestPages(t *testing.T) {
	c := newCall(nil, &bytes.Buffer{}, &bytes.Buffer{})
	for name, want := range reference.Pages(c.Root(), newSettings()) {
		file := filepath.Join("..", "..", "docs", name)
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is stale; run go generate ./cmd/stagepost (-program +page):\n%s", name, diff)
		}
	}
}

// TestEveryCommandIsExplained requires a sentence for each command and option.
func TestEveryCommandIsExplained(t *testing.T) {
	c := newCall(nil, &bytes.Buffer{}, &bytes.Buffer{})
	for _, cmd := range c.Root().Commands() {
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: its sentence is %q", cmd.Name(), cmd.Short)
		}
	}
	for _, s := range c.Settings.All() {
		if s.Doc == "" {
			t.Errorf("setting %s has no sentence", s.Name)
		}
	}
}

// TestEveryLifecycleIsDocumented compares the lifecycles of the modules with those of docs/lifecycles.md.
func TestEveryLifecycleIsDocumented(t *testing.T) {
	names := func(all []*lifecycle.Table) (names []string) {
		for _, one := range all {
			names = append(names, one.Name())
		}
		slices.Sort(names)
		return names
	}
	if diff := cmp.Diff(names(docs.All()), names(newSettings().Lives())); diff != "" {
		t.Errorf("docs.All and the modules differ (-docs +modules):\n%s", diff)
	}
}
