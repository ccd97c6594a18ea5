package ingest

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/format/checkm"
)

var (
	shownManifest = regexp.MustCompile("(?s)```checkm\n(.*?)```")
	shownColumn   = regexp.MustCompile("(?m)^\\| (\\d+) \\| `(\\w+)` \\| (all|object|batches) \\|")
)

// TestManifestsAreDocumented: each manifest in docs/ingest.md is accepted, by the reader and by the check before a
// submission, there is one of each kind, and the table of columns is that of the format.
func TestManifestsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/ingest.md")
	if err != nil {
		t.Fatal(err)
	}
	p, err := ManifestProfile(false, profile.NamesPortable)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, m := range shownManifest.FindAllStringSubmatch(string(text), -1) {
		if err := readAll(m[1], !strings.Contains(m[1], "127.0.0.1")); err != nil {
			t.Errorf("%s\n%v", m[1], err)
		}
		found, err := CheckManifest(strings.NewReader(m[1]), "x.checkm", "", p)
		if err != nil || len(found.Problems) > 0 || len(found.Warnings) > 0 || found.Rows == 0 {
			t.Errorf("%s\n%+v, %v", m[1], found, err)
		}
		kinds[found.Type] = true
		if readAll(strings.Replace(m[1], "#%eof", "", 1), false) == nil {
			t.Errorf("control: it is accepted without its last line:\n%s", m[1])
		}
	}
	if len(kinds) != 4 {
		t.Errorf("the manifests are of the kinds %v, not of four", slices.Sorted(maps.Keys(kinds)))
	}
	columns := map[*checkm.Profile][]string{}
	for _, m := range shownColumn.FindAllStringSubmatch(string(text), -1) {
		for _, one := range []*checkm.Profile{checkm.Object, checkm.BatchManifests} {
			if m[3] == "all" || (m[3] == "batches") == one.Batch() {
				columns[one] = append(columns[one], m[1]+" "+m[2])
			}
		}
	}
	for one, got := range columns {
		var want []string
		for i, c := range one.Columns() {
			want = append(want, fmt.Sprintf("%d %s", i+1, c))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has the columns %q; docs/ingest.md has %q", one, want, got)
		}
	}
}

// readAll reads a manifest to its end.
func readAll(text string, strict bool) error {
	r := checkm.NewReader("x.checkm", strings.NewReader(text), checkm.Options{Strict: strict})
	var err error
	for err == nil {
		_, err = r.Read()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
