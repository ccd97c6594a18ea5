package pdf

import (
	"context"
	"fmt"
	"io"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
)

// Carrier exchanges files with a server. *client.Client is one.
type Carrier interface {
	PDFDocument(ctx context.Context, worker string, id job.ID, epoch int64) (io.ReadCloser, error)
	PutPDF(ctx context.Context, worker string, id job.ID, epoch int64, file []byte) error
}

// Remote gives the files of the jobs of a server to a worker with a name.
func Remote(c Carrier, worker string) Files { return &elsewhere{c, worker} }

type elsewhere struct {
	carrier Carrier
	worker  string
}

// Source is part of [Files].
func (r *elsewhere) Source(ctx context.Context, j *api.Leased) (io.ReadCloser, error) {
	f, err := r.carrier.PDFDocument(ctx, r.worker, j.ID, j.Epoch)
	if kind := job.KindOf(err); kind == job.Gone || kind == job.NotFound {
		err = failed(CauseDocument, err)
	}
	return f, err
}

// Put is part of [Files]. What arrived damaged is printed again.
func (r *elsewhere) Put(ctx context.Context, j *api.Leased, want Result, body io.Reader) error {
	text, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	err = r.carrier.PutPDF(ctx, r.worker, j.ID, j.Epoch, text)
	if job.KindOf(err) == job.Invalid {
		return &Error{CauseRender, true, fmt.Errorf("the server refuses the PDF file of %d bytes: %w", want.Size, err)}
	}
	return err
}
