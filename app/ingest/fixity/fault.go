package fixity

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/format/ocfl"
)

const (
	mostFaults  = 1000 // of one copy that are noted
	mostEntries = 10   // of one copy that get an entry of their own in the audit list
	mostText    = 400  // bytes of a file system's message
)

// found collects the faults of one copy.
type found struct {
	faults []inventory.Fault
	more   int
}

func (f *found) file(x ocfl.FileFault) {
	same := func(o inventory.Fault) bool { return o.Path == x.Path }
	switch {
	case slices.ContainsFunc(f.faults, same): // reported once
	case len(f.faults) >= mostFaults:
		f.more++
	default:
		if len(x.Detail) > mostText {
			x.Detail = strings.ToValidUTF8(x.Detail[:mostText], "")
		}
		f.faults = append(f.faults, inventory.Fault{
			Path: x.Path, Kind: string(x.Kind), Algorithm: x.Algorithm, Expected: x.Expected, Found: x.Found,
			Detail: x.Detail,
		})
	}
}

// settle gives the faults, each with the moment since which it is known.
func (f *found) settle(at time.Time, known []inventory.Fault) []inventory.Fault {
	if f.more > 0 {
		last := &f.faults[len(f.faults)-1]
		last.Detail = fmt.Sprintf("and %d more faults of this version", f.more)
	}
	for i := range f.faults {
		f.faults[i].Since = at
		for _, k := range known {
			if same(&k, &f.faults[i]) {
				f.faults[i].Since = k.Since
			}
		}
	}
	return f.faults
}

// same reports whether two faults of one copy are equal.
func same(a, b *inventory.Fault) bool {
	return a.Path == b.Path && a.Kind == b.Kind && a.Found == b.Found
}

func sameDigest(a, b string) bool { return strings.EqualFold(a, b) }

// report enters in the audit list what is new about a copy: each fault, or that those that were known are no more. It
// comes before the inventory has it: after a crash an entry may stand there twice, but is not missing.
func (c *Checker) report(ctx context.Context, of inventory.Copy, known, faults []inventory.Fault) error {
	object := fmt.Sprintf("%s %s v%d", of.Place, of.ARK, of.Version)
	entered := 0
	for i := range faults {
		if slices.ContainsFunc(known, func(k inventory.Fault) bool { return same(&k, &faults[i]) }) {
			continue
		}
		if entered++; entered > mostEntries {
			continue
		}
		what := object + " " + faults[i].Path
		c.Log.Error("fixity fault", "location",
			of.Place, "object", of.ARK, "version", of.Version, "file", faults[i].Path, "fault", faultText(&faults[i]),
			"job", of.Job)
		if err := c.Audit(ctx, "fixity-fault", what, faultText(&faults[i])); err != nil {
			return err
		}
	}
	if entered > mostEntries {
		return c.Audit(ctx, "fixity-fault", object,
			fmt.Sprintf("and %d more faults: stagepost fixity status", entered-mostEntries))
	}
	if len(known) > 0 && len(faults) == 0 {
		c.Log.Info("fixity fault gone", "location", of.Place, "object", of.ARK, "version", of.Version)
		return c.Audit(ctx, "fixity-sound", object, fmt.Sprintf("%d faults are gone", len(known)))
	}
	return nil
}

// faultText describes the fault of a file in one line.
func faultText(f *inventory.Fault) string {
	text := f.Kind
	if f.Expected != "" || f.Found != "" {
		text += fmt.Sprintf(": %s expected %s, found %s", cmp.Or(f.Algorithm, "digest"), cmp.Or(f.Expected, "nothing"),
			cmp.Or(f.Found, "nothing"))
	}
	if f.Detail != "" {
		text += ": " + f.Detail
	}
	return text
}
