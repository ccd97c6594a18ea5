package custody

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/archive/catalog"
)

// copyEvents gives what happened to the copies of an archive, by the times that the catalog has of each: that it was
// stored and read back, its last fixity check, and its deletion. Rows of copies remain, also of those that were
// replaced or deleted. recorded are the events that were entered when they happened: other results of fixity checks,
// and replacements.
func copyEvents(all []catalog.Copy, recorded []catalog.Event) []catalog.Event {
	identify := func(e *catalog.Event) string {
		copyIn, _, _ := strings.Cut(e.Detail, ":")
		return e.Type + " " + e.Path + " " + e.At.UTC().Format(time.RFC3339Nano) + " " + copyIn
	}
	has := map[string]bool{}
	for i := range recorded {
		has[identify(&recorded[i])] = true
	}
	var derived []catalog.Event
	add := func(e catalog.Event) {
		if !e.At.IsZero() && !has[identify(&e)] {
			derived = append(derived, e)
		}
	}
	for i := range all {
		x := &all[i]
		of := catalog.Event{Job: x.Of.Job, Path: x.Of.Path, Outcome: "success"}
		stored, checked, deleted := of, of, of
		stored.Type, stored.At = "replication", x.Stored
		stored.Detail = fmt.Sprintf("stored in %s as %s; read back, %d bytes, SHA-256 %s", x.Location, x.Key, x.Size,
			x.Of.SHA256)
		add(stored)
		if x.Attempts > 0 && x.Verified.IsZero() && x.Error != "" && x.Deleted.IsZero() {
			failed := stored
			failed.At, failed.Outcome = x.Planned, "failure"
			failed.Detail = fmt.Sprintf("not stored in %s after %d attempts: %s", x.Location, x.Attempts, x.Error)
			add(failed)
		}
		if x.LastFixity.After(x.Stored) {
			checked.Type, checked.At = "fixity check", x.LastFixity
			checked.Detail = fmt.Sprintf("copy in %s: %s", x.Location, x.Fixity)
			if x.Fixity != catalog.Intact {
				checked.Outcome = "failure"
				checked.Detail += ": " + x.Detail
			}
			add(checked)
		}
		deleted.Type, deleted.At, deleted.Agent = "deletion", x.Deleted, x.DeletedBy
		deleted.Detail = fmt.Sprintf("copy in %s, %s: %s", x.Location, x.Key, cmp.Or(x.Reason, "no reason was given"))
		add(deleted)
	}
	return derived
}

// inOrder gives events in order of time.
func inOrder(recorded, derived []catalog.Event) []catalog.Event {
	all := slices.Concat(recorded, derived)
	slices.SortStableFunc(all, func(a, b catalog.Event) int { return a.At.Compare(b.At) })
	return all
}
