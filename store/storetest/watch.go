package storetest

import (
	"context"
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var watchTests = []test{
	{"a hint comes after a commit", watchHint},
	{"ends with its context", watchEnds},
}

// watchHint commits until a hint of the job comes: single hints may be lost.
func watchHint(w *harness) {
	hints := make(chan []job.Hint, 1)
	ctx, stop := context.WithCancel(w.Context())
	ended := make(chan bool)
	go func() {
		defer close(ended)
		w.st.Watch(ctx, func(list []job.Hint) {
			for _, h := range list {
				if r := h.Record; r != nil && job.HintOf(r) != h {
					w.Errorf("hint %+v of record %+v", h, r)
				}
			}
			select {
			case hints <- slices.Clone(list):
			default:
			}
		})
	}()
	j := w.step()
	patience := time.After(10 * time.Second)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for found := false; !found; {
		j = w.moved(j, lifecycle.Operator, "hold", "release")
		select {
		case list := <-hints:
			for _, h := range list {
				if h.Job == j.ID && h.Kind == stepKind && h.Epoch > 0 && h.Free && !h.Ended &&
					(h.State == waiting || h.State == parked) {
					found = true
				}
			}
		case <-again.C:
		case <-patience:
			w.Fatal("no hint of the job came")
		}
	}
	stop()
	<-ended
	w.moved(j, lifecycle.Operator, "cancel") // without a watcher
}

func watchEnds(w *harness) {
	ctx, stop := context.WithCancel(w.Context())
	stop()
	w.st.Watch(ctx, func([]job.Hint) {})
	w.step()
}

var reopenTests = []test{{"keeps everything", reopenKeeps}}

// reopenKeeps fills a store, opens it again and compares everything. A store that is not durable has no such promise.
func reopenKeeps(w *harness) {
	same(w, "name", w.st.Properties().Name != "", true)
	if !w.st.Properties().Durable {
		w.Skip("not durable")
	}
	jobs := zoo(w)
	claimed := w.claim("w1", 1)[0]
	w.must(job.Change{Job: claimed.ID,
		Epoch: claimed.Epoch, Keep: true, At: w.now(),
		Tasks: []job.Task{{Name: "t", Kind: "x", State: running, Changed: w.now()}}})
	w.sends(jobs["done"], "m", w.now())
	w.settle(job.Message{Key: "m", Due: w.now(), Error: "busy",
		Tried: []job.Attempt{{At: w.now(), Took: 3, Error: "busy"}}})
	w.put(job.Scope{Group: "nowhere", Tag: "queue=a"}, w.now().Add(time.Hour))
	var before []snapshot
	for _, j := range jobs {
		before = append(before, w.snapshot(j.ID))
	}
	holds, tallies, list := w.holds(), w.count(), w.list(job.Query{})
	tagged := ids(w.list(job.Query{Tag: "queue=a"}))
	w.st = w.reopen()
	for _, s := range before {
		w.unchanged(s)
	}
	same(w, "holds", w.holds(), holds)
	same(w, "tallies", w.count(), tallies)
	same(w, "list", w.list(job.Query{}), list)
	same(w, "with a tag", ids(w.list(job.Query{Tag: "queue=a"})), tagged)
	again := w.create(w.made(Step, owner("bob"), key("k1")))[0]
	same(w, "the key is still taken", again.ID, jobs["waiting"].ID)
	fresh := w.create(w.made(Step))[0]
	for _, j := range list {
		if j.Kind == stepKind && j.Number == fresh.Number {
			w.Errorf("number %d is given again", fresh.Number)
		}
	}
	now := w.get(claimed.ID)
	w.must(w.move(now, "begin", lifecycle.Worker)) // the claim outlives the store's process
	same(w, "to be taken", keys(w.take(9)), []string{"m"})
	w.sound()
}
