package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const want = `
booked a flight for Ada
booked a suite for Ada
sent flight of Ada and suite of Ada
SUCCESS <nil>
booked a flight for Ben
booked a suite for Ben
cancelled the suite of Ben
cancelled the flight of Ben
REVERTED the bank answers no
booked a flight for Cleo
booked a suite for Cleo
cancelled the suite of Cleo
cancelled the flight of Cleo
REVERTED the signal paid did not come within 1h
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
