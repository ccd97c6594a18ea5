package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const want = `
booked a flight for Ada
booked a room for Ada
sent flight of Ada and room of Ada
SUCCESS <nil>
booked a flight for Ben
booked a room for Ben
cancelled the room of Ben
cancelled the flight of Ben
REVERTED the bank said no
booked a flight for Cleo
booked a room for Cleo
cancelled the room of Cleo
cancelled the flight of Cleo
REVERTED the signal paid did not come within 1h0m0s
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
