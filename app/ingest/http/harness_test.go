package ingesthttp_test

import (
	"context"
	"encoding/json"
	"io"
	"strconv"
	"testing"

	ingesthttp "github.com/stagepost/stagepost/app/ingest/http"
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
		if change != nil {
			change(&options{o, routes(&ingest)})
		}
	}, steps, func(w *servertest.Harness) server.Part { return ingesthttp.Part(w.Server, ingest) })
	return w
}

// part gives the routes of ingest to a server whose engine's letters are submissions.
func part(w *servertest.Harness) server.Part {
	return ingesthttp.Part(w.Server, ingesthttp.Options{Ingest: &inbox{engine: w.Engine}})
}

// inbox is an ingest that keeps what it gets.
type inbox struct {
	engine *engine.Engine
	got    client.Submission
	bytes  string
	fail   error // of submissions, instead of taking them
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
	if _, err := i.engine.Store().Get(ctx, id); err != nil {
		return ingesthttp.Report{}, err
	}
	text, err := json.Marshal(client.BatchReport{Batch: id, Jobs: []client.JobReport{}})
	return ingesthttp.Report{JSON: text, Text: "report on " + string(id) + "\n"}, err
}

func (i *inbox) Objects(context.Context, string, client.ObjectQuery) (client.Objects, error) {
	return client.Objects{Objects: []client.Object{}}, nil
}
