package ingesthttp_test

import (
	"context"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	ingesthttp "github.com/stagepost/stagepost/app/ingest/http"
	"github.com/stagepost/stagepost/app/ingest/share"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
)

// options are those of the server and those of the routes of ingest.
type options struct {
	*server.Options
	routes
}

// routes are an embedded field of a name of its own.
type routes = *ingesthttp.Options

// harness is a server with the routes of ingest.
type harness struct {
	*servertest.Harness
	ingest *inbox
}

// open starts one, as [servertest.Open] does.
func open(t *testing.T, change func(*options), steps map[lifecycle.State]engine.Step) *harness {
	t.Helper()
	w := &harness{}
	var ingest ingesthttp.Options
	w.Harness = servertest.Open(t, func(o *server.Options) {
		w.ingest = &inbox{engine: o.Engine}
		ingest.Ingest = w.ingest
		ingest.Shares = share.Open(t.TempDir(), o.Engine.Clock().Now)
		if change != nil {
			change(&options{o, routes(&ingest)})
		}
	}, steps, func(w *servertest.Harness) server.Part { return ingesthttp.Part(w.Server, ingest) })
	return w
}

// part gives the routes of ingest to a server whose engine's letters are submissions.
func part(w *servertest.Harness) server.Part {
	w.T.Helper()
	return ingesthttp.Part(w.Server, ingesthttp.Options{Ingest: &inbox{engine: w.Engine},
		Shares: share.Open(w.T.TempDir(), time.Now)})
}

// inbox is an ingest that keeps what it gets.
type inbox struct {
	engine *engine.Engine
	got    client.Submission
	bytes  string
	fail   error // of submissions, instead of taking them
	// of an upload
	names     []string
	texts     []string
	discarded bool
	user      string
}

// Upload begins an upload, which the inbox itself keeps.
func (i *inbox) Upload(user string) (ingesthttp.Upload, error) {
	i.names, i.texts, i.discarded, i.user = nil, nil, false, user
	return uploading{i}, nil
}

type uploading struct{ *inbox }

func (u uploading) Add(_ context.Context, name string, from io.Reader) error {
	text, err := io.ReadAll(from)
	if err != nil {
		return &job.Error{Op: "submit", Kind: job.Unavailable, Err: err}
	}
	u.names, u.texts = append(u.names, name), append(u.texts, string(text))
	return nil
}

func (u uploading) Submit(ctx context.Context, s client.Submission) (job.Job, error) {
	return u.inbox.Submit(ctx, u.user, s, strings.NewReader(strings.Join(u.texts, "+")))
}

func (u uploading) Discard() error {
	u.discarded = true
	return nil
}

func (i *inbox) Submit(ctx context.Context, _ string, s client.Submission, payload io.Reader) (job.Job, error) {
	text, err := io.ReadAll(payload)
	if err != nil {
		return job.Job{}, &job.Error{Op: "submit", Kind: job.Unavailable, Err: err}
	}
	if i.fail != nil {
		return job.Job{}, i.fail
	}
	i.got, i.bytes = s, string(text)
	j, err := i.engine.Submit(ctx, engine.Order{Kind: "test.letter", Key: s.Key, Owner: s.Submitter, Spec: s.Title})
	if err == nil && string(j.Spec) != strconv.Quote(s.Title) {
		err = job.Errorf(job.Conflict, "submit", j.ID, "another submission")
	}
	return j, err
}

func (i *inbox) Report(ctx context.Context, id job.ID) (ingesthttp.Report, error) {
	j, err := i.Batch(ctx, id)
	return ingesthttp.Report{Batch: client.BatchReport{Batch: id, Jobs: []client.JobReport{}}, Ended: j.Ended,
		Text: func() string { return "report on " + string(id) + "\n" }}, err
}

func (i *inbox) Batch(ctx context.Context, id job.ID) (job.Job, error) {
	return i.engine.Store().Get(ctx, id)
}

func (i *inbox) Objects(context.Context, string, client.ObjectQuery) (client.Objects, error) {
	return client.Objects{Objects: []client.Object{}}, nil
}
