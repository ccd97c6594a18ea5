package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var outboxTests = []test{
	{"a second message with the key is ignored", outboxKey},
	{"due messages, the first due first", outboxDue},
	{"a taken message is not taken again during the lease", outboxLease},
	{"settled messages are not taken again", outboxSettle},
	{"only messages of the wanted topics", outboxTopics},
	{"a job's messages, settled or not", outboxJob},
	{"no message to two of 8 deliverers", outboxParallel},
	{"numbers rise in the order of creation", outboxNumbers},
	{"the last deliveries are kept", outboxTried},
	{"lists, the newest first", outboxList},
	{"settled messages are delivered again on request", outboxReplay},
	{"a key that is repeated in a request to deliver again counts once", outboxReplayTwice},
}

// sends writes a message with a job's news.
func (w *harness) sends(j job.Job, name string, due time.Time) job.Message {
	w.Helper()
	m := job.Message{Key: name, Job: j.ID, Topic: "mail", Body: []byte(fmt.Sprintf(`{"n":%q}`, name)), Created: w.now(),
		Due: due}
	w.must(job.Change{Job: j.ID, Version: w.get(j.ID).Version, At: w.now(), Outbox: []job.Message{m}})
	for _, got := range w.messages(j.ID) {
		if got.Key == name {
			m.Number = got.Number
		}
	}
	return m
}

func (w *harness) take(n int) []job.Message {
	w.Helper()
	return w.taken(n)
}

func keys(messages []job.Message) []string {
	list := make([]string, len(messages))
	for i := range messages {
		list[i] = messages[i].Key
	}
	return list
}

func outboxKey(w *harness) {
	a, b := w.step(), w.step()
	first := w.sends(a, "report/1", w.now())
	w.sends(b, "report/1", w.now())
	w.sends(a, "report/1", w.now())
	same(w, "messages of the first", w.messages(a.ID), []job.Message{first})
	same(w, "messages of the second", w.messages(b.ID), nil)
	same(w, "to be taken", keys(w.take(9)), []string{"report/1"})
	w.settle(job.Message{Key: "report/1", Settled: job.Delivered})
	w.sends(a, "report/1", w.now())
	w.pass(time.Hour)
	same(w, "after it was delivered", keys(w.take(9)), []string{})
	w.must(w.move(w.get(a.ID), "hold", lifecycle.Operator,
		func(c *job.Change) { c.Outbox = []job.Message{first, first} }))
}

func outboxDue(w *harness) {
	j := w.step()
	at := w.now()
	for _, m := range []int{30, 10, 20, 90} {
		w.sends(j, fmt.Sprint(m), at.Add(time.Duration(m)*time.Minute))
	}
	same(w, "none due", keys(w.take(9)), []string{})
	w.pass(time.Hour)
	same(w, "one", keys(w.take(1)), []string{"10"})
	same(w, "the rest", keys(w.take(9)), []string{"20", "30"})
	same(w, "take none", keys(w.take(0)), []string{})
}

func outboxLease(w *harness) {
	j := w.step()
	want := w.sends(j, "k", w.now())
	var now time.Time
	got := w.taken(9, func(t *job.Taking) { now = t.Now })
	if len(got) != 1 {
		w.Fatalf("took %v", got)
	}
	want.Due, want.Attempts = got[0].Due, got[0].Attempts
	same(w, "taken", got[0], want)
	same(w, "when it is given to another", w.messages(j.ID)[0].Due, now.Add(time.Minute))
	same(w, "within the lease", keys(w.take(9)), []string{})
	w.pass(time.Minute)
	again := w.take(9)
	same(w, "after the lease", keys(again), []string{"k"})
	if again[0].Attempts != got[0].Attempts+1 {
		w.Errorf("attempts %d, then %d", got[0].Attempts, again[0].Attempts)
	}
	w.sound()
}

func outboxSettle(w *harness) {
	j := w.step()
	for _, name := range []string{"a", "b", "c"} {
		w.sends(j, name, w.now())
	}
	w.take(9)
	later := w.now().Add(time.Hour)
	w.settle(job.Message{Key: "a", Settled: job.Delivered},
		job.Message{Key: "b", Settled: job.Abandoned, Error: "no such mailbox"},
		job.Message{Key: "c", Settled: job.Pending, Error: "try later", Due: later, Attempts: 5},
		job.Message{Key: "nobody's", Settled: job.Delivered})
	same(w, "settled ones are not taken", keys(w.take(9)), []string{})
	w.pass(30 * time.Minute)
	same(w, "before the next attempt", keys(w.take(9)), []string{})
	w.pass(time.Hour)
	got := w.take(9)
	same(w, "at the next attempt", keys(got), []string{"c"})
	same(w, "its last error", got[0].Error, "try later")
	same(w, "its attempts, with this one", got[0].Attempts, 6)
	w.pass(24 * time.Hour)
	same(w, "much later", keys(w.take(9)), []string{"c"})
}

func outboxTopics(w *harness) {
	j := w.step()
	for _, topic := range []string{"mail", "callback", "webhook"} {
		m := job.Message{Key: topic + "/1", Job: j.ID, Topic: topic, Body: []byte(`1`), Created: w.now(), Due: w.now()}
		w.must(job.Change{Job: j.ID, Version: w.get(j.ID).Version, At: w.now(), Outbox: []job.Message{m}})
	}
	take := func(others bool, topics ...string) []string {
		return keys(w.taken(9, func(t *job.Taking) { t.Topics, t.Others = topics, others }))
	}
	same(w, "one of them", take(false, "callback", "none"), []string{"callback/1"})
	same(w, "others", take(true, "mail", "callback"), []string{"webhook/1"})
	same(w, "no others", take(true, "mail"), []string{})
	same(w, "all", take(false), []string{"mail/1"})
}

func outboxJob(w *harness) {
	a, b := w.step(), w.step()
	w.sends(a, "1", w.now())
	w.sends(b, "2", w.now())
	w.sends(a, "3", w.now().Add(time.Hour))
	w.take(1)
	w.settle(job.Message{Key: "1", Settled: job.Abandoned, Error: "gone"})
	w.pass(4 * time.Hour)
	got := map[string]job.Message{}
	for range 2 { // listing takes none
		for _, m := range w.messages(a.ID) {
			got[m.Key] = m
		}
	}
	if len(got) != 2 || got["1"].Settled != job.Abandoned || got["1"].Error != "gone" ||
		got["3"].Settled != job.Pending {
		w.Errorf("messages of the job: %+v", got)
	}
	same(w, "still to be taken", keys(w.take(9)), []string{"2", "3"})
	same(w, "of a job without", w.messages(w.step().ID), nil)
}

func outboxParallel(w *harness) {
	j := w.step()
	const n = 100
	c := job.Change{Job: j.ID, Version: j.Version, At: w.now()}
	for i := range n {
		c.Outbox = append(c.Outbox, job.Message{Key: fmt.Sprint(i), Job: j.ID, Topic: "mail", Created: c.At, Due: c.At})
	}
	w.must(c)
	call := job.Taking{N: 3, Lease: time.Hour, Now: w.now()}
	var mu sync.Mutex
	seen := map[string]int{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range n + 1 { // one that is returned without end shows long before
				got, err := w.st.Take(w.Context(), call)
				if err != nil {
					w.Errorf("take: %v", err)
				}
				if len(got) == 0 {
					return
				}
				mu.Lock()
				for _, m := range got {
					if seen[m.Key]++; seen[m.Key] > 1 {
						w.Errorf("message %s was taken twice", m.Key)
					}
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	same(w, "messages taken", len(seen), n)
}

// outboxNumbers opens the store again between messages.
func outboxNumbers(w *harness) {
	j := w.step()
	last := int64(0)
	for i := range 6 {
		m := w.sends(j, fmt.Sprint(i), w.now())
		if m.Number != last+1 {
			w.Errorf("message %d has number %d after %d", i, m.Number, last)
		}
		last = m.Number
		if i%2 == 1 {
			w.take(1)
			w.restart()
		}
	}
	same(w, "sent twice", w.sends(j, "0", w.now()).Number, 1)
	same(w, "after one that was ignored", w.sends(j, "new", w.now()).Number, last+1)
}

func outboxTried(w *harness) {
	j := w.step()
	w.sends(j, "k", w.now())
	var tried []job.Attempt
	for i := range job.MostTried + 3 {
		tried = append(tried, job.Attempt{At: w.now(), Took: int64(i), Error: fmt.Sprint("error ", i)})
	}
	settle := func(m job.Message) job.Message {
		w.Helper()
		m.Key = "k"
		w.settle(m)
		w.restart()
		return w.messages(j.ID)[0]
	}
	same(w, "one", settle(job.Message{Due: w.now(), Error: "error 0", Tried: tried[:1]}).Tried, tried[:1])
	same(w, "deliveries are not given", settle(job.Message{Due: w.now()}).Tried, tried[:1])
	same(w, "more than are kept", settle(job.Message{Due: w.now(), Tried: tried}).Tried, tried[3:])
	got := settle(job.Message{Settled: job.Delivered, Tried: append(tried[3:], job.Attempt{At: w.now()})})
	same(w, "the last one", got.Tried[job.MostTried-1].Error, "")
	same(w, "settled", settle(job.Message{Settled: job.Abandoned, Tried: tried[:1]}), got) // it stays as it is
}

func outboxList(w *harness) {
	a, b := w.step(), w.step()
	for i := range 9 {
		j := a
		if i%3 == 0 {
			j = b
		}
		m := job.Message{Key: fmt.Sprint(i), Job: j.ID, Topic: []string{"mail", "callback"}[i%2], Created: w.now(),
			Due: w.now()}
		w.must(job.Change{Job: j.ID, Version: w.get(j.ID).Version, At: w.now(), Outbox: []job.Message{m}})
	}
	w.settle(job.Message{Key: "1", Settled: job.Delivered},
		job.Message{Key: "3", Settled: job.Abandoned, Error: "no such mailbox"},
		job.Message{Key: "4", Settled: job.Delivered})
	before := w.listed(job.MessageQuery{})
	for _, c := range []struct {
		name string
		q    job.MessageQuery
		want []string
	}{
		{"all", job.MessageQuery{}, []string{"8", "7", "6", "5", "4", "3", "2", "1", "0"}},
		{"of a job", job.MessageQuery{Job: b.ID}, []string{"6", "3", "0"}},
		{"of a topic", job.MessageQuery{Topic: "callback"}, []string{"7", "5", "3", "1"}},
		{"delivered", job.MessageQuery{Settled: ptr(job.Delivered)}, []string{"4", "1"}},
		{"abandoned", job.MessageQuery{Settled: ptr(job.Abandoned)}, []string{"3"}},
		{"pending", job.MessageQuery{Settled: ptr(job.Pending)}, []string{"8", "7", "6", "5", "2", "0"}},
		{"pending of a topic", job.MessageQuery{Settled: ptr(job.Pending), Topic: "mail"},
			[]string{"8", "6", "2", "0"}},
		{"abandoned of a job", job.MessageQuery{Settled: ptr(job.Abandoned), Job: b.ID, Topic: "callback"},
			[]string{"3"}},
		{"abandoned of another", job.MessageQuery{Settled: ptr(job.Abandoned), Job: a.ID}, nil},
		{"a page", job.MessageQuery{Limit: 2}, []string{"8", "7"}},
		{"the next one", job.MessageQuery{Limit: 2, Before: 8}, []string{"6", "5"}},
		{"pending, the next one", job.MessageQuery{Limit: 2, Before: 8, Settled: ptr(job.Pending)}, []string{"6", "5"}},
		{"of a job, the next one", job.MessageQuery{Limit: 1, Before: 7, Job: b.ID}, []string{"3"}},
		{"past the last", job.MessageQuery{Before: 1}, nil},
		{"of an unknown job", job.MessageQuery{Job: "tst_nobody"}, nil},
	} {
		same(w, c.name, keys(w.listed(c.q)), c.want)
	}
	same(w, "listing changes nothing", w.listed(job.MessageQuery{}), before)
	same(w, "a listed message", before[8], w.messages(b.ID)[0])
}

func outboxReplay(w *harness) {
	j := w.step()
	for _, name := range []string{"a", "b", "c", "d"} {
		w.sends(j, name, w.now())
	}
	w.take(3)
	tried := []job.Attempt{{At: w.now(), Took: 7, Error: "no"}}
	w.settle(job.Message{Key: "a", Settled: job.Delivered},
		job.Message{Key: "b", Settled: job.Abandoned, Error: "no", Tried: tried})
	before := w.messages(j.ID)
	for _, c := range []struct {
		name string
		keys []string
		want job.ErrorKind
	}{
		{"unknown", []string{"a", "nothing"}, job.NotFound},
		{"still pending", []string{"b", "d"}, job.Conflict},
		{"taken and not settled", []string{"c"}, job.Conflict},
	} {
		_, err := w.st.Replay(w.Context(), w.now(), c.keys...)
		if job.KindOf(err) != c.want {
			w.Errorf("%s: %v, want kind %s", c.name, err, c.want)
		}
		same(w, c.name, w.messages(j.ID), before) // all or none
	}
	w.pass(time.Hour)
	now := w.now()
	got := did(w, "replay", func() ([]job.Message, error) { return w.st.Replay(w.Context(), now, "b", "a") })
	want := []job.Message{before[1], before[0]}
	for i := range want {
		want[i].Settled, want[i].Attempts, want[i].Due = job.Pending, 0, now
	}
	same(w, "the answer", got, want)
	w.restart()
	same(w, "the messages", w.messages(j.ID)[:2], []job.Message{want[1], want[0]})
	taken := w.take(9)
	same(w, "to be taken", len(taken), 4)
	same(w, "attempts", taken[3].Attempts, 1)
	w.sound()
}

func outboxReplayTwice(w *harness) {
	j := w.step()
	for _, name := range []string{"a", "b", "c"} {
		w.sends(j, name, w.now())
	}
	w.settle(job.Message{Key: "a", Settled: job.Delivered}, job.Message{Key: "b", Settled: job.Abandoned})
	before := w.messages(j.ID)
	_, err := w.st.Replay(w.Context(), w.now(), "a", "a", "c", "c")
	w.refused(err, job.Conflict)
	_, err = w.st.Replay(w.Context(), w.now(), "a", "a", "nothing", "nothing")
	w.refused(err, job.NotFound)
	same(w, "after a refusal", w.messages(j.ID), before)
	got := did(w, "replay", func() ([]job.Message, error) {
		return w.st.Replay(w.Context(), w.now(), "b", "a", "b", "b", "a")
	})
	same(w, "the answer", keys(got), []string{"b", "a"})
	_, err = w.st.Replay(w.Context(), w.now(), "a")
	w.refused(err, job.Conflict)
	w.restart()
	w.pass(time.Minute)
	same(w, "to be taken", len(w.take(9)), 3)
	w.sound()
}
