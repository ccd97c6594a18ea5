package archive

import (
	"context"
	"fmt"
	"time"

	"github.com/stagepost/stagepost/app/archive/pdf"
	"github.com/stagepost/stagepost/app/archive/printing"
	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/app/archive/workdir"
	"github.com/stagepost/stagepost/job"
)

// maxWaits is the number of waits after which the next ones are not longer.
const maxWaits = 4

// prints reports whether attempts get PDF files.
func (t *task) prints() bool {
	return t.data.Settings.Content.PDF == settings.PDFOn || t.data.Settings.Content.PDF == settings.PDFRequired
}

// print puts a PDF file beside each HTML file of an attempt. While jobs print, it gives [waiting]; a repetition adds
// the files that are complete since. waits is how often it waited before. Warnings name the files that are not printed.
func (t *task) print(ctx context.Context, u *workdir.Unit, unit string, waits int) (warnings []string, err error) {
	p := &printing.Prints{
		Printer: t.app.options.PDF, Job: t.Job().ID, Owner: t.Job().Owner, Dir: t.dir.Root,
		Required: t.data.Settings.Content.PDF == settings.PDFRequired,
	}
	open, warnings, err := p.Add(ctx, u, unit)
	switch {
	case err != nil:
		return nil, err
	case open > 0:
		return nil, t.awaitPrints(open, waits)
	}
	return warnings, nil
}

// awaitPrints waits for jobs that print: 5 s at first, at most a minute.
func (t *task) awaitPrints(open, waits int) error {
	return waiting{Blocker: job.Blocker{
		Code: "pdf", Sentence: fmt.Sprintf("%d PDF files are being printed", open),
		Until: t.Now().Add(min(5*time.Second<<min(waits, maxWaits), time.Minute)), Holder: string(pdf.Kind),
		Remedy: "nothing: it goes on when workers have printed them",
	}}
}
