package stagepost_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// TestReleaseTargets: make soak builds for the systems of the release binaries, make check type-checks the sources for
// the one that differs most, and the release sets the version.
func TestReleaseTargets(t *testing.T) {
	text, err := os.ReadFile(".goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var release struct {
		Version int `yaml:"version"`
		Builds  []struct {
			Main    string   `yaml:"main"`
			Env     []string `yaml:"env"`
			LDFlags []string `yaml:"ldflags"`
			Targets []string `yaml:"targets"`
		} `yaml:"builds"`
		Archives []struct {
			Files []string `yaml:"files"`
		} `yaml:"archives"`
	}
	if err := yaml.Unmarshal(text, &release); err != nil {
		t.Fatal(err)
	}
	if release.Version != 2 || len(release.Builds) != 1 || len(release.Archives) != 1 {
		t.Fatalf("got %+v", release)
	}
	b := release.Builds[0]
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^TARGETS = (.*)$`).FindSubmatch(makefile)
	if m == nil || !strings.Contains(string(makefile), "\nsoak: check targets\n") {
		t.Fatal("make soak does not build for TARGETS")
	}
	if !strings.Contains(string(makefile), " shows darwin\n") {
		t.Error("make check does not check the sources for another system")
	}
	if got := strings.Fields(strings.ReplaceAll(string(m[1]), "/", "_")); !slices.Equal(got, b.Targets) {
		t.Errorf("make soak builds for %q, releases are for %q", got, b.Targets)
	}
	if _, err := os.Stat(b.Main); err != nil || !slices.Contains(b.Env, "CGO_ENABLED=0") {
		t.Errorf("%+v, %v", b, err)
	}
	if !strings.Contains(strings.Join(b.LDFlags, " "), "-X github.com/stagepost/stagepost/internal/build.version=") {
		t.Errorf("the release does not set the version: %q", b.LDFlags)
	}
	source, err := os.ReadFile("internal/build/build.go")
	if err != nil || !strings.Contains(string(source), "\nvar version string\n") {
		t.Errorf("the linker has no variable to set: %v", err)
	}
	for _, file := range release.Archives[0].Files {
		if _, err := os.Stat(file); err != nil && !strings.Contains(file, "*") {
			t.Errorf("the archive names %s: %v", file, err)
		}
	}
}
