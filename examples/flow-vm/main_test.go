package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const want = `
reserved on host-a
SUSPENDED
dropped claim on host-a
reserved on host-b
SUCCESS server at 10.0.0.7 on host-b with vol-debian of 20 GB
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
