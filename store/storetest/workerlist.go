package storetest

import (
	"fmt"
	"slices"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// listWorkerPages lists the claims of several workers in pages of several sizes, in both orders. The jobs are of two
// kinds, and between them are jobs that are not claimed and claims of others.
func listWorkerPages(w *harness) {
	for i := range 40 {
		life := Step
		if i%3 == 1 || i > 30 {
			life = Batch
		}
		w.create(w.made(life, owner(fmt.Sprint("o", i%2))))
	}
	from := []job.KindState{{Kind: stepKind, State: waiting}, {Kind: batchKind, State: waiting}}
	for i := range 35 {
		ask := w.asks([]string{"host-1/a", "host-1/b", "host-2", "host-1/a"}[i%4], 1, nil)
		ask.From = from[i%2:]
		if i%2 == 0 {
			ask.From = from[:1]
		}
		did(w, "claim", func() ([]job.Job, error) { return w.st.Claim(w.Context(), ask) })
	}
	yield := w.list(job.Query{Worker: "host-1/a", Limit: 1})[0]
	w.must(w.move(yield, lifecycle.Yield, lifecycle.Worker))
	all := w.list(job.Query{Oldest: true})
	for _, q := range []job.Query{
		{Worker: "host-1/"}, {Worker: "h"}, {Worker: "host-1/b"}, {Worker: "host-1/", Kinds: []job.Kind{batchKind}},
		{Worker: "host-1/", Owner: "o1"}, {Worker: "host-", Kinds: []job.Kind{stepKind, batchKind}, Owner: "o0"},
		{Worker: "host-1/", States: []lifecycle.State{running}}, {Worker: "host-3"},
	} {
		for _, q.Oldest = range []bool{true, false} {
			var want []job.ID
			for _, j := range all {
				if q.Matches(&j) {
					want = append(want, j.ID)
				}
			}
			if !q.Oldest {
				slices.Reverse(want)
			}
			for _, q.Limit = range []int{1, 2, 5, 50} {
				same(w, fmt.Sprintf("%+v", q), w.pages(q), want)
			}
		}
	}
	w.sound()
}

// pages lists all pages of a query.
func (w *harness) pages(q job.Query) (list []job.ID) {
	w.Helper()
	for {
		page := did(w, "list", func() (job.Page, error) { return w.st.List(w.Context(), q) })
		list = append(list, ids(page.Jobs)...)
		if q.After = page.Next; q.After == "" {
			return list
		}
		if len(page.Jobs) != q.Limit {
			w.Errorf("%+v: a page of %d jobs is followed by another", q, len(page.Jobs))
		}
	}
}
