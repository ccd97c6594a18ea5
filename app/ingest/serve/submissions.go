package ingestserve

import (
	"cmp"
	"context"
	"io"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest"
	ingesthttp "github.com/stagepost/stagepost/app/ingest/http"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
)

// submissions joins the server to the application: the same words in both, in types of their own.
type submissions struct{ app *ingest.App }

func (i submissions) Submit(ctx context.Context, user string, s client.Submission, payload io.Reader) (job.Job, error) {
	return i.app.SubmitFor(sender(ctx), user, s, payload)
}

// sender returns a context with the limits of the sender of a request.
func sender(ctx context.Context) context.Context {
	if server.IsUser(ctx) {
		ctx = ingest.AsUser(ctx)
	}
	if who, ok := server.Who(ctx); ok && who.Groups != "" {
		ctx = ingest.Within(ctx, who.Groups.List()...)
	}
	return ctx
}

// upload is an upload of a sender.
type upload struct{ *ingest.Upload }

func (u upload) Submit(ctx context.Context, s client.Submission) (job.Job, error) {
	return u.Upload.Submit(sender(ctx), s)
}

func (i submissions) Upload(user string) (ingesthttp.Upload, error) {
	u, err := i.app.Upload(user)
	if err != nil {
		return nil, err
	}
	return upload{u}, nil
}

func (i submissions) Report(ctx context.Context, batch job.ID) (ingesthttp.Report, error) {
	report, err := i.app.Report(ctx, batch)
	if err != nil {
		return ingesthttp.Report{}, err
	}
	return ingesthttp.Report{Batch: report.BatchReport, Ended: record.BatchLife.Ended(report.State),
		Text: report.Text, HTML: report.HTML, CSV: report.CSV}, nil
}

func (i submissions) Batch(ctx context.Context, id job.ID) (job.Job, error) {
	return i.app.Batch(ctx, id)
}

func (i submissions) Objects(ctx context.Context, user string, q client.ObjectQuery) (api.Objects, error) {
	page, limit := api.Objects{Objects: []api.Object{}}, cmp.Or(q.Limit, 50)
	objects, err := i.app.Objects(ctx, ingest.ObjectQuery{
		ARK: q.ARK, LocalID: q.LocalID, Owner: q.Owner, Digest: q.Digest, After: q.After, Limit: limit + 1,
		Permit: i.app.Permit(user),
	})
	if err != nil {
		return page, err
	}
	if len(objects) > limit {
		objects = objects[:limit]
		page.Next = objects[limit-1].ARK
	}
	page.Objects = append(page.Objects, objects...)
	return page, nil
}
