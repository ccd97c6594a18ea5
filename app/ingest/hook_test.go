package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/edge/webhook"
	"github.com/stagepost/stagepost/edge/webhook/webhooktest"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/engine/hooklog"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// TestHooksReportBatches follows a batch through failure, retry and update.
func TestHooksReportBatches(t *testing.T) {
	secret := newSecret(t)
	e := newHookReceiver(t, secret)
	s := newSite(t, map[string]string{"a.txt": "alpha", "late.txt": "late"})
	s.put("one.checkm", s.manifest("a.txt"))
	s.put("two.checkm", s.manifest("late.txt"))
	s.answer("late.txt", http.NotFound)
	w := start(t, hooked(t, e, secret))
	r := w.ingest(Submission{Filename: "b.checkm"},
		manifest("mrt-batch-manifest", s.row("one.checkm", "l1", "One"), s.row("two.checkm", "l2", "Two")))
	e.await(4)
	want := map[string]int{"batch.queued": 1, "job.completed": 1, "job.failed": 1, "batch.failed": 1}
	if diff := cmp.Diff(want, e.types()); diff != "" {
		t.Error(diff)
	}
	e.mu.Lock()
	for id, notices := range e.taken {
		n := notices[0]
		if !strings.HasPrefix(id, string(n.Data.ID)+"/") || len(notices) != 1 {
			t.Errorf("%s: got %+v", id, notices)
		}
		if n.name() == "job.failed" && (n.Data.State != record.Failed || n.Data.Cause != CauseNotFound ||
			n.Data.Parent != r.Batch || n.Data.Outcome != lifecycle.Failed) {
			t.Errorf("got %+v", n.Data)
		}
		if n.name() == "job.completed" && (n.Data.State != record.Completed || len(n.Data.Data) == 0) {
			t.Errorf("got %+v", n.Data)
		}
	}
	e.mu.Unlock()

	s.answer("late.txt", nil)
	failed := r.Jobs[1].Job
	if err := w.do(failed, record.Retry); err != nil {
		t.Fatal(err)
	}
	if j := w.end(failed); j.State != record.Completed {
		t.Fatalf("got %s: %s", j.State, j.Message)
	}
	if err := w.do(r.Batch, record.Update); err != nil {
		t.Fatal(err)
	}
	w.end(r.Batch)
	e.await(4)
	want = map[string]int{
		"batch.queued": 1, "job.completed": 2, "job.failed": 1, "batch.failed": 1, "job.retried": 1, "batch.updated": 1,
		"batch.completed": 1,
	}
	if diff := cmp.Diff(want, e.types()); diff != "" {
		t.Error(diff)
	}
	if _, err := w.e.Do(t.Context(), operator.Act{Job: r.Batch, Event: record.Delete,
		By: lifecycle.Operator, Actor: "op",
		Confirm: true}); err != nil {
		t.Fatal(err)
	}
	for e.types()["batch.deleted"] == 0 { // its jobs may go with it, and are reported too
		e.await(1)
	}
}

// TestHooksReportWhatNoStepCaused: a hold that puts aside, a release, a person who stops a job, a hook of some events
// only.
func TestHooksReportWhatNoStepCaused(t *testing.T) {
	secret := newSecret(t)
	e := newHookReceiver(t, secret)
	w := start(t, hooked(t, e, secret, "job.held", "job.released", "job.failed", "batch.failed"))
	hold := job.Scope{Kind: record.JobKind, Group: "maps"}
	if _, err := w.e.Operator().Hold(t.Context(), hold, "op", "test", time.Time{}); err != nil {
		t.Fatal(err)
	}
	b := w.submit(Submission{Filename: "f.txt"}, "text")
	j := w.children(b.ID, 1)[0]
	w.until(j.ID, func(j *job.Job) bool { return j.State == record.Held })
	e.await(1)
	if _, err := w.e.Operator().Release(t.Context(), hold, "op", "over"); err != nil {
		t.Fatal(err)
	}
	stop := job.Scope{Kind: record.JobKind, State: record.Storing}
	if _, err := w.e.Operator().Hold(t.Context(), stop, "op", "test", time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := w.do(j.ID, record.Release); err != nil {
		t.Fatal(err)
	}
	w.until(j.ID, func(j *job.Job) bool { return j.State == record.Storing })
	if err := w.do(j.ID, record.Stop); err != nil {
		t.Fatal(err)
	}
	e.await(3)
	if diff := cmp.Diff(map[string]int{"job.held": 1, "job.released": 1, "job.failed": 1, "batch.failed": 1},
		e.types()); diff != "" {
		t.Error(diff)
	}
}

// TestEventsAreKnown holds the table of transitions against the list that a profile may choose from.
func TestEventsAreKnown(t *testing.T) {
	reported := map[string]bool{}
	for kind, life := range map[job.Kind]*lifecycle.Table{record.BatchKind: record.BatchLife,
		record.JobKind: record.JobLife} {
		for _, stage := range life.Stages() {
			for _, a := range stage.Transitions {
				for _, to := range append([]lifecycle.State{a.To}, a.States...) {
					j := job.Job{Kind: kind, Position: lifecycle.Position{State: stage.State}}
					for _, typ := range happened(&j, &job.Change{Event: a.Event, To: lifecycle.Position{State: to}}) {
						reported[typ] = true
					}
				}
			}
		}
	}
	var all []string
	for typ := range reported {
		all = append(all, typ)
	}
	want := profile.Events()
	slices.Sort(all)
	slices.Sort(want)
	if diff := cmp.Diff(want, all); diff != "" {
		t.Error(diff)
	}
}

// TestEveryEvent: each event that a profile may select, each callback and a ping is an event of CloudEvents, with an id
// of its own.
func TestEveryEvent(t *testing.T) {
	secret := newSecret(t)
	e := newHookReceiver(t, secret)
	p := hooked(t, e, secret)
	p.Callback = &profile.Callback{URL: e.URL}
	w := start(t, p)
	at := time.Unix(1, 0)
	after := &job.Job{ID: "ing_1", Seq: 7, Title: "Über <maps>", Spec: []byte(`{}`)}
	bodies := map[string]json.RawMessage{}
	for _, name := range profile.Events() {
		m, err := w.hookMessage(&p, &p.Webhooks[0], after, name, at)
		var env posted
		if err = errors.Join(err, json.Unmarshal(m.Body, &env)); err != nil {
			t.Fatal(err)
		}
		bodies[m.Key] = env.Body
	}
	for _, state := range []lifecycle.State{record.Completed, record.Failed, record.Deleted} {
		after.State = state
		call, err := w.newCalled(&p, &end{job: after, spec: &record.JobSpec{}, data: &record.JobData{}, at: at})
		if err != nil {
			t.Fatal(err)
		}
		bodies[callbackKey(after, state)] = call.Body
	}
	if want := len(profile.Events()) + 3; len(bodies) != want {
		t.Errorf("%d ids of %d events", len(bodies), want)
	}
	for id, body := range bodies {
		var n webhook.Event
		h := http.Header{"Content-Type": {webhook.MediaType}, webhook.HeaderID: {id}}
		if err := errors.Join(webhooktest.Check(h, body), json.Unmarshal(body, &n)); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		if n.Source != "stagepost://"+w.inventory.Installation()+"/ingest" || !n.Time.Equal(at) {
			t.Errorf("got %s", body)
		}
	}
	pings, err := w.Ping(t.Context(), "test", "", "op", "") // the receiver checks it
	if err != nil || pings[0].Error != "" || e.types()["ping"] != 1 {
		t.Errorf("got %+v, %v", pings, err)
	}
}

// leaping is a clock that a test moves on.
type leaping struct {
	clock.Clock
	ahead atomic.Int64
}

func (l *leaping) Now() time.Time { return l.Clock.Now().Add(time.Duration(l.ahead.Load())) }

func (l *leaping) leap(d time.Duration) { l.ahead.Add(int64(d)) }

// startLeaping is start with a clock of the test's.
func startLeaping(t *testing.T, o Options) (*harness, *leaping) {
	t.Helper()
	clock := &leaping{Clock: clock.System()}
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	store := mem.New()
	e, err := engine.New(store, a.Works(),
		engine.Options{Deliver: a.Deliver(), Sweep: 20 * time.Millisecond, Clock: clock, Attempts: 4})
	if err != nil {
		t.Fatal(err)
	}
	a.Bind(e)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, a.Close()); err != nil {
			t.Error(err)
		}
	})
	return &harness{App: a, t: t, dir: o.Dir, store: store, e: e}, clock
}

// settled waits until no notification of a job is on its way, and gives them.
func (w *harness) settled(id job.ID, want string) []Delivery {
	w.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		all, err := w.Deliveries(w.t.Context(), DeliveryQuery{Job: id})
		if err != nil {
			w.t.Fatal(err)
		}
		if len(all) > 0 && !slices.ContainsFunc(all, func(d Delivery) bool { return d.Status != want }) {
			return all
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("got %+v", all)
		}
		<-time.After(2 * time.Millisecond) // the outbox notifies no test
	}
}

// tried waits until the one notification of a job has been tried so often, in all its replays.
func (w *harness) tried(id job.ID, n int) {
	w.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		all, err := w.Deliveries(w.t.Context(), DeliveryQuery{Job: id})
		if err != nil || time.Now().After(deadline) {
			w.t.Fatalf("got %+v, %v", all, err)
		}
		if len(all) == 1 && len(all[0].Tried) == n {
			return
		}
		<-time.After(2 * time.Millisecond) // the outbox notifies no test
	}
}

// TestHookIsTriedAgain: the same id and body at each try, with the pauses of the specification, until it is taken.
func TestHookIsTriedAgain(t *testing.T) {
	secret, second := newSecret(t), newSecret(t)
	e := newHookReceiver(t, second)
	e.answer = func(nth int, w http.ResponseWriter) {
		switch nth {
		case 1:
			w.WriteHeader(500)
		case 2:
			w.Header().Set("Retry-After", "7200")
			w.WriteHeader(503)
		}
	}
	p := hooked(t, e, secret, "batch.completed")
	p.Webhooks[0].SecretFile = secretFile(t, secret+"\n"+second+"\n") // the receiver has the new one already
	w, clock := startLeaping(t, options(t, t.TempDir(), p))
	b := w.end(w.submit(Submission{Filename: "f.txt"}, "text").ID)
	w.tried(b.ID, 1)
	clock.leap(7 * time.Second)
	w.tried(b.ID, 2)
	clock.leap(time.Hour) // more than the usual five minutes, less than was asked for
	d := w.settled(b.ID, hooklog.Pending)
	if len(d) != 1 || d[0].Attempts != 2 || len(d[0].Tried) != 2 || !strings.Contains(d[0].Error, "503") ||
		d[0].Payload != nil {
		t.Errorf("got %+v", d)
	}
	clock.leap(2 * time.Hour)
	d = w.settled(b.ID, hooklog.Delivered)
	if len(d[0].Tried) != 3 || d[0].Tried[2].Error != "" || d[0].Error != "" ||
		d[0].Host != strings.TrimPrefix(e.URL, "http://") || !d[0].Due.IsZero() {
		t.Errorf("got %+v", d)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.taken) != 1 || len(e.taken[d[0].Key]) != 3 {
		t.Errorf("got %v", e.taken)
	}
	for _, n := range e.taken[d[0].Key] {
		if diff := cmp.Diff(e.taken[d[0].Key][0], n); diff != "" {
			t.Error(diff)
		}
	}
}

// TestHookIsGivenUpAndReplayed: 410 at once, others after all tries; a replay has the same id, a reason, and stands in
// the audit list.
func TestHookIsGivenUpAndReplayed(t *testing.T) {
	secret := newSecret(t)
	e := newHookReceiver(t, secret)
	status := atomic.Int64{}
	status.Store(410)
	e.answer = func(_ int, w http.ResponseWriter) { w.WriteHeader(int(status.Load())) }
	w, clock := startLeaping(t, options(t, t.TempDir(), hooked(t, e, secret, "batch.completed")))
	b := w.end(w.submit(Submission{Filename: "f.txt"}, "text").ID)
	d := w.settled(b.ID, hooklog.Abandoned)[0]
	if d.Attempts != 1 || !strings.Contains(d.Error, "410") ||
		!strings.Contains(d.Error, "remove the hook from profile test") {
		t.Errorf("got %+v", d)
	}
	for name, r := range map[string]Replay{
		"no reason": {Keys: []string{d.Key}}, "nothing": {Note: "x"}, "both": {Keys: []string{d.Key}, Failed: true,
			Note: "x"},
		"since": {Keys: []string{d.Key}, Since: time.Now(), Note: "x"}, "many": {Keys: make([]string, 1001), Note: "x"},
	} {
		r.Actor = "op"
		if _, err := w.Replay(t.Context(), r); job.KindOf(err) != job.Invalid {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := w.Replay(t.Context(),
		Replay{Keys: []string{d.Key, d.Key + "x"}, Actor: "op", Note: "x"}); job.KindOf(err) != job.NotFound {
		t.Errorf("an unknown key: got %v", err)
	}
	if got := w.settled(b.ID, hooklog.Abandoned)[0]; got.Status != hooklog.Abandoned {
		t.Errorf("half a replay: got %+v", got)
	}

	status.Store(500)
	if keys, err := w.Replay(t.Context(), Replay{Keys: []string{d.Key}, Actor: "op", Note: "mended"}); err != nil ||
		!slices.Equal(keys, []string{d.Key}) {
		t.Errorf("got %v, %v", keys, err)
	}
	w.tried(b.ID, 2)
	if _, err := w.Replay(t.Context(),
		Replay{Keys: []string{d.Key}, Actor: "op", Note: "again"}); job.KindOf(err) != job.Refused {
		t.Errorf("still on its way: got %v", err)
	}
	for n := range 3 {
		clock.leap(3 * time.Hour)
		w.tried(b.ID, 3+n)
	}
	if d := w.settled(b.ID, hooklog.Abandoned)[0]; d.Attempts != 4 {
		t.Errorf("got %+v", d)
	}
	status.Store(204)
	if keys, err := w.Replay(t.Context(), Replay{Failed: true, Since: clock.Now().Add(time.Hour), Actor: "op",
		Note: "later ones"}); err != nil || len(keys) != 0 {
		t.Errorf("got %v, %v", keys, err)
	}
	if keys, err := w.Replay(t.Context(), Replay{Failed: true, Actor: "op", Note: "all"}); err != nil ||
		len(keys) != 1 {
		t.Errorf("got %v, %v", keys, err)
	}
	w.settled(b.ID, hooklog.Delivered)
	if len(e.types()) != 1 || len(e.taken) != 1 {
		t.Errorf("got %v", e.taken)
	}
	one, err := w.Delivery(t.Context(), d.Key)
	if err != nil || one.Type != "batch.completed" || string(one.Payload) != e.taken[d.Key][0].Body {
		t.Errorf("got %+v, %v", one, err)
	}
	entries := w.audit()
	if n := len(entries); n != 2 || entries[0].Event != "replay" || entries[0].Note != "mended" ||
		entries[1].Object != d.Key {
		t.Errorf("got %+v", entries)
	}
}

// audit gives the audit list without what people did to jobs.
func (w *harness) audit() []job.Audit {
	w.t.Helper()
	all, err := w.store.Audit(w.t.Context(), 0, 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(a job.Audit) bool { return a.Job != "" })
}

// TestHookIsGuarded: a private address is not called unless the profile allows it. The control is every other test
// here.
func TestHookIsGuarded(t *testing.T) {
	secret := newSecret(t)
	e := newHookReceiver(t, secret)
	p := hooked(t, e, secret)
	p.Networks = nil
	w := start(t, p)
	b := w.end(w.submit(Submission{Filename: "f.txt"}, "text").ID)
	for {
		d, err := w.Deliveries(t.Context(), DeliveryQuery{Job: b.ID, Status: hooklog.Pending})
		if err != nil {
			t.Fatal(err)
		}
		if len(d) > 0 && d[0].Error != "" {
			if !strings.Contains(d[0].Error, "loopback") {
				t.Errorf("got %+v", d[0])
			}
			break
		}
		<-time.After(2 * time.Millisecond)
	}
	pings, err := w.Ping(t.Context(), "test", "", "op", "")
	if err != nil || len(pings) != 1 || !strings.Contains(pings[0].Error, "loopback") || e.calls != 0 {
		t.Errorf("got %+v, %v and %d calls", pings, err, e.calls)
	}
}

func TestPing(t *testing.T) {
	secret := newSecret(t)
	e := newHookReceiver(t, secret)
	p := hooked(t, e, secret, "job.failed")
	p.Webhooks = append(p.Webhooks, profile.Webhook{Name: "nobody", URL: "http://127.0.0.1:1/",
		SecretFile: secretFile(t, secret)})
	w := start(t, p)
	pings, err := w.Ping(t.Context(), "test", "", "op", "")
	if err != nil || len(pings) != 2 || pings[0].Error != "" || pings[1].Error == "" || e.types()["ping"] != 1 {
		t.Errorf("got %+v, %v, %v", pings, err, e.types())
	}
	if pings, err := w.Ping(t.Context(), "test", "receiver", "op", ""); err != nil || len(pings) != 1 {
		t.Errorf("got %+v, %v", pings, err)
	}
	for _, c := range [][2]string{{"none", ""}, {"test", "none"}, {"default", ""}} {
		if _, err := w.Ping(t.Context(), c[0], c[1], "op", ""); job.KindOf(err) != job.NotFound {
			t.Errorf("%v: got %v", c, err)
		}
	}
	if a := w.audit(); len(a) != 2 || a[1].Object != "test receiver" {
		t.Errorf("got %+v", a)
	}
}

// TestCrashNotifiesOnce kills the process after every call of the store in the life of a batch, and lets another
// process go on: every event is reported at least once, always under one id. (Death before a call is death after the
// one before it.)
func TestCrashNotifiesOnce(t *testing.T) {
	secret := newSecret(t)
	sub := Submission{Profile: "test", Submitter: "ann", Key: "k", Filename: "f.txt"}
	whole := newCrashing(mem.New(), 0, false)
	e := newHookReceiver(t, secret)
	o := options(t, t.TempDir(), hooked(t, e, secret))
	live(t, whole, o, sub, "text")
	calls := whole.Calls() + 4 // its last notifications were perhaps not settled
	t.Logf("the life of the batch has %d calls", calls)
	want := map[string]int{"batch.queued": 1, "job.completed": 1, "batch.completed": 1}
	for at := 0; at <= calls; at++ { // none crashes at 0, which is the control
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			e := newHookReceiver(t, secret)
			m := newCrashing(mem.New(), at, true)
			o := options(t, t.TempDir(), hooked(t, e, secret))
			live(t, m, o, sub, "text")
			w := startOn(t, m.Store, o)
			b := w.end(w.submit(sub, "text").ID)
			w.settled(b.ID, hooklog.Delivered)
			w.settled(w.children(b.ID, 1)[0].ID, hooklog.Delivered)
			if diff := cmp.Diff(want, e.types()); diff != "" {
				t.Error(diff)
			}
			w.stop()
		})
	}
}
