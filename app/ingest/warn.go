package ingest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/format/checkm"
)

// Bounds of the warnings of one job.
const (
	maxWarnings = 20
	maxWarning  = 400 // bytes of one
)

// warn notes what is odd in what was handed in and no reason to refuse it; the report shows it. A second attempt at a phase finds the same and
// adds nothing.
func (t *task) warn(format string, args ...any) {
	text := strings.ToValidUTF8(fmt.Sprintf(format, args...), "\ufffd")
	if len(text) > maxWarning {
		text = strings.ToValidUTF8(text[:maxWarning], "") + " ..."
	}
	const more = "There are more warnings than are shown here."
	switch all := t.data.Warnings; {
	case slices.Contains(all, text) || slices.Contains(all, more):
	case len(all) == maxWarnings-1:
		t.data.Warnings = append(all, more)
	default:
		t.data.Warnings = append(all, text)
	}
}

// otherSize is the warning about a file whose digest is right and whose size is not.
const otherSize = "%s has %d bytes, its manifest says %d; its digest is right."

// warnManifest notes what is odd in a manifest.
func (t *task) warnManifest(all []*checkm.Error) {
	for _, e := range all {
		t.warn("%s", e)
	}
}
