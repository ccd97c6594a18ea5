package archiveserve_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/job"
)

// TestPDFWorkers: a server with PDF workers accepts content.pdf, and one without refuses it. Files of a directory are
// not attempts, and are not printed.
func TestPDFWorkers(t *testing.T) {
	if !printable(t) {
		t.Skip("Chromium, Ghostscript or a sandbox is missing")
	}
	f := newFixture(t)
	report := filepath.Join(f.exams, "algebra", "attempts", "ann", "report.html")
	must(t, os.MkdirAll(filepath.Dir(report), 0o750))
	must(t, os.WriteFile(report, []byte("<!DOCTYPE html><title>Report</title><p>2"), 0o640))
	f.configure("presets: {default: {settings: {sign: false}}}\n")
	no := false
	r := archive.Request{Course: "algebra", Source: "exams", Settings: archive.Settings{
		Sign: &no, Pack: settings.PackNone, Content: source.Settings{PDF: settings.PDFRequired}}}
	must(t, f.start())
	if _, err := f.app.Submit(t.Context(), r, archive.Ordered{}); job.KindOf(err) != job.Invalid {
		t.Errorf("control: without workers, got %v", err)
	}
	f.stop()
	f.workers = 1
	must(t, f.start())
	id := f.submit(r)
	f.completed(id)
	for _, a := range f.artifacts(id) {
		if strings.HasSuffix(a.Key, ".pdf") {
			t.Errorf("%s is not the report of an attempt, and was printed", a.Key)
		}
	}
}
