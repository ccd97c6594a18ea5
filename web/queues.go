package web

import (
	"net/http"
	"net/url"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/web/amount"
	"github.com/stagepost/stagepost/web/markup"
)

// queuesView is what the page about queues shows.
type queuesView struct {
	Kinds   []kindQueue
	Batches []batchRow
	More    bool
	Total   api.QueueTotal
}

// kindQueue is the jobs of one kind by their states.
type kindQueue struct {
	Many   string
	Kind   job.Kind
	States []stateQueue
	Jobs   int64
}

type stateQueue struct {
	api.QueueTotal
	Tone Tone
	Doc  string
	Path string // of the list of these jobs
}

type batchRow struct {
	api.QueueBatch
	Name string
	Path string
	Tone Tone
	Age  string
	Done int // of the expected
}

func (h *handlers) queues(r *http.Request) (*Frame, error) {
	var queue api.Queue
	var batches api.QueueBatches
	if err := h.Get(r, "/api/v1/queue", &queue); err != nil {
		return nil, err
	}
	if err := h.Get(r, "/api/v1/queue/batches?limit=20", &batches); err != nil {
		return nil, err
	}
	return &Frame{Title: "Queues", Body: viewQueues(h.Pages, &queue, &batches), Refresh: overviewRefresh}, nil
}

// viewQueues groups the totals by kind, in the order of the lifecycle.
func viewQueues(kinds Kinds, q *api.Queue, batches *api.QueueBatches) queuesView {
	v := queuesView{Total: q.Total, More: batches.Next != ""}
	for _, t := range q.States {
		if n := len(v.Kinds); n == 0 || v.Kinds[n-1].Kind != t.Kind {
			v.Kinds = append(v.Kinds, kindQueue{Many: kinds.NameOf(t.Kind).Many, Kind: t.Kind})
		}
		of := &v.Kinds[len(v.Kinds)-1]
		stage := kinds.Stage(t.Kind, t.State)
		of.Jobs += t.Jobs
		of.States = append(of.States, stateQueue{t, ToneOf(&stage, stage.Outcome, stage.Kind == lifecycle.End,
			t.Claimed > 0), stage.Doc, With("/jobs", url.Values{"kind": {string(t.Kind)}, "state": {string(t.State)}})})
	}
	for i := range batches.Batches {
		b := &batches.Batches[i]
		stage := kinds.Stage(b.Kind, b.State)
		v.Batches = append(v.Batches, batchRow{QueueBatch: *b,
			Name: kinds.NameOf(b.Kind).One + " …" + markup.ShortID(b.Job),
			Path: JobPath(b.Job), Tone: ToneOf(&stage, b.Outcome, stage.Kind == lifecycle.End, false),
			Age:  amount.Span(time.Duration(b.Seconds) * time.Second),
			Done: b.Children.OK + b.Children.Failed + b.Children.TimedOut + b.Children.Cancelled + b.Children.Deleted})
	}
	return v
}
