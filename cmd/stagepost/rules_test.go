package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/config"
)

// TestListsHaveCommas: lists in settings have commas between their entries, and nothing else is a separator.
func TestListsHaveCommas(t *testing.T) {
	lists := 0
	for _, one := range newSettings().All() {
		if _, after, ok := strings.Cut(one.Doc, "between them"); ok || strings.Contains(one.Doc, "separated by") {
			if lists++; !strings.Contains(one.Doc, "with commas between them"+after) {
				t.Errorf("%s: %s", one.Name, one.Doc)
			}
		}
	}
	if lists < 5 {
		t.Errorf("%d lists were found", lists)
	}
	if got := config.List(" a, b c ,,d,"); !slices.Equal(got, []string{"a", "b c", "d"}) {
		t.Errorf("got %q", got)
	}
}

// TestSecretsAreInFiles: no setting is a secret, which would be shown by ps and in the environment. One that names a
// file with a secret ends with _file.
func TestSecretsAreInFiles(t *testing.T) {
	files := 0
	for _, one := range newSettings().All() {
		if config.Hides(one.Name) {
			t.Errorf("%s is a secret: name a file with it (%s_file)", one.Name, one.Name)
		}
		named := strings.HasSuffix(one.Name, "_file")
		if holds := strings.HasPrefix(one.Doc, "file with the "); holds != named {
			t.Errorf("%s: a file with a secret: %v; named so: %v", one.Name, holds, named)
		}
		if named {
			files++
		}
	}
	if files < 2 || !config.Hides("mail.password") { // the control
		t.Errorf("%d files with secrets were found", files)
	}
}
