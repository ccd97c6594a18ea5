package flowserve

import (
	"slices"
	"testing"
)

// TestDirs: flow.dirs is a list with commas.
func TestDirs(t *testing.T) {
	for text, want := range map[string][]string{"": nil, "/a , /b": {"/a", "/b"}, "/a:/b": {"/a:/b"}} {
		if got, err := flowDirs(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("flow.dirs %q: got %q, %v", text, got, err)
		}
	}
}
