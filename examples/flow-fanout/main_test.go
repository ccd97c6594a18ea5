package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const want = `
report: 780 bytes
SUCCESS total 780 tried again 4 report SUCCESS
SUCCESS total 780 tried again 4 report IGNORE
`

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), out.String()); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}
