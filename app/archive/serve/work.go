package archiveserve

import (
	"context"
	"errors"
	"fmt"

	"github.com/stagepost/stagepost/app/archive/pdf"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/module"
)

// Remote is the work of archives on other machines: PDF files. The steps of archive jobs need the catalog and the
// connections of the server.
func Remote() *module.Remote {
	return &module.Remote{
		Kinds: []job.Kind{pdf.Kind}, Doc: "PDF files for archives, by Chromium and Ghostscript", Open: openRemote,
	}
}

// remotePrinter prints PDF files for a server.
type remotePrinter struct {
	*pdf.Worker
	box *sandbox.Sandbox
}

func openRemote(ctx context.Context, h *module.RemoteHost) (module.RemoteWork, error) {
	box, err := sandbox.Open(ctx, sandbox.Options{Tier: sandbox.Require, Name: "stagepost-" + h.Name, Log: h.Log})
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	printer, err := pdf.Find(box, pdf.Options{})
	if err != nil {
		return nil, errors.Join(cli.Usage(err), box.Close())
	}
	w := pdf.NewWorker(h.API, pdf.Remote(h.API, h.Name), printer, pdf.WorkerOptions{Name: h.Name, Temp: h.Temp, Log: h.Log})
	return &remotePrinter{w, box}, nil
}

// Refresh is part of [module.RemoteWork]. The definition is that of this program.
func (p *remotePrinter) Refresh(context.Context, job.Kind) (*engine.Work, error) {
	return &p.Works()[0], nil
}

// Close ends the programs that print.
func (p *remotePrinter) Close() error { return p.box.Close() }
