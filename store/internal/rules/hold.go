package rules

import (
	"slices"
	"strings"

	"github.com/stagepost/stagepost/job"
)

// PutHold puts a hold on its scope, in place of an earlier one. Afterwards, Holds of the writes are all holds.
func PutHold(w *Writes, h job.Hold) error {
	if err := checkScope(&h.Scope); err != nil {
		return err
	}
	w.note(job.AuditedHold(&h))
	h.Address = ""
	w.Put = append(w.Put, h)
	w.Holds = append(without(w.Holds, h.Scope), h)
	SortHolds(w.Holds)
	return nil
}

// Release ends the hold on the scope of h. A scope without a hold is NotFound.
func Release(w *Writes, h job.Hold) error {
	others := without(w.Holds, h.Scope)
	if len(others) == len(w.Holds) {
		return job.Errorf(job.NotFound, "release", "", "there is no hold on %s", h.Scope)
	}
	w.Released = append(w.Released, h.Scope)
	w.note(job.AuditedRelease(&h))
	w.Holds = others
	return nil
}

// without returns a copy of the holds without that on a scope.
func without(holds []job.Hold, s job.Scope) []job.Hold {
	return slices.DeleteFunc(slices.Clone(holds), func(h job.Hold) bool { return h.Scope == s })
}

// SortHolds sorts holds as [job.Holds] lists them.
func SortHolds(holds []job.Hold) {
	slices.SortFunc(holds, func(a, b job.Hold) int {
		if n := a.Since.Compare(b.Since); n != 0 {
			return n
		}
		return strings.Compare(a.Scope.String(), b.Scope.String())
	})
}
