package ingest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/edge/webhook"
	"github.com/stagepost/stagepost/edge/webhook/webhooktest"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// callbackReceiver answers with the statuses in turn, the last one again and again. 0 hangs up.
type callbackReceiver struct {
	mu       sync.Mutex // guards all
	statuses []int
	keys     []string
	bodies   []string
	news     []News
	badSign  int
	wrong    []error // what is no event
}

// calls gives the keys of the calls that reported a state.
func (c *callbackReceiver) calls(state lifecycle.State) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var keys []string
	for i, n := range c.news {
		if n.State == string(state) {
			keys = append(keys, c.keys[i])
		}
	}
	return keys
}

func (c *callbackReceiver) last() News {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.news[len(c.news)-1]
}

func (c *callbackReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	h := r.Header
	if id, err := webhook.Verify(h, body, time.Now(), webhook.RawSecret("s3cret")); err != nil ||
		id != h.Get("Idempotency-Key") {
		c.badSign++
	}
	var e struct {
		webhook.Event
		Data News `json:"data"`
	}
	if err := errors.Join(webhooktest.Check(h, body), json.Unmarshal(body, &e)); err != nil {
		c.wrong = append(c.wrong, err)
	}
	if e.Subject != string(e.Data.Job) ||
		e.Type != "io.github.stagepost.ingest.callback."+strings.ToLower(e.Data.State) {
		c.wrong = append(c.wrong, fmt.Errorf("the event is %s", body))
	}
	c.keys, c.news, c.bodies = append(c.keys, h.Get("Idempotency-Key")), append(c.news, e.Data), append(c.bodies,
		string(body))
	status := c.statuses[0]
	if len(c.statuses) > 1 {
		c.statuses = c.statuses[1:]
	}
	switch {
	case status == 0:
		panic(http.ErrAbortHandler)
	case status/100 == 3:
		w.Header().Set("Location", "/elsewhere")
	}
	w.WriteHeader(status)
	_, _ = w.Write(make([]byte, 1000))
}

// calling is the test's profile with a callback at the receiver, without mails.
func calling(t *testing.T, in http.Handler, required bool) profile.Profile {
	t.Helper()
	s := httptest.NewServer(in)
	t.Cleanup(s.Close)
	if c, ok := in.(*callbackReceiver); ok {
		t.Cleanup(func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if len(c.wrong) > 0 {
				t.Error(c.wrong)
			}
		})
	}
	p := testProfile()
	p.Suppress = profile.SuppressFull
	p.Callback = &profile.Callback{URL: s.URL + "/told", SecretFile: secretFile(t, "s3cret"), Required: required}
	return p
}

// callbacks gives the callbacks of a job in the outbox.
func (w *harness) callbacks(id job.ID) []job.Message {
	w.t.Helper()
	all, err := w.store.Messages(w.t.Context(), job.MessageQuery{Job: id, Topic: callbackTopic})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// awaitCallback waits until the newest callback of a job is as wanted. Meanwhile it does turn, if there is one: a clock
// may have to be moved.
func (w *harness) awaitCallback(id job.ID, turn func(), want func(m *job.Message) bool) job.Message {
	w.t.Helper()
	for deadline := time.Now().Add(guard); ; {
		all := w.callbacks(id)
		if len(all) > 0 && want(&all[0]) {
			return all[0]
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("got %+v", all)
		}
		if turn != nil {
			turn()
		}
		<-time.After(2 * time.Millisecond) // the outbox notifies no test
	}
}

func triedTimes(n int) func(*job.Message) bool {
	return func(m *job.Message) bool { return len(m.Tried) >= n }
}

// distinct gives each text once.
func distinct(all []string) []string { return slices.Compact(slices.Sorted(slices.Values(all))) }

func settledAs(s job.Settled) func(*job.Message) bool {
	return func(m *job.Message) bool { return m.Settled == s }
}

// TestCallback: a callback leaves by the outbox. Its receiver's answers decide about the message, and about the job
// only where it is required.
func TestCallback(t *testing.T) {
	for name, c := range map[string]struct {
		statuses []int
		required bool
		calls    int
		want     job.Settled
		state    lifecycle.State
	}{
		"taken":                         {[]int{200}, false, 1, job.Delivered, record.Completed},
		"taken, required":               {[]int{200}, true, 1, job.Delivered, record.Completed},
		"taken after trouble":           {[]int{404, 500, 0, 204}, false, 4, job.Delivered, record.Completed},
		"taken after trouble, required": {[]int{500, 0, 404, 204}, true, 4, job.Delivered, record.Completed},
		"refused permanently":           {[]int{410}, false, 1, job.Abandoned, record.Completed},
		"refused permanently, required": {[]int{410}, true, 1, job.Abandoned, record.Failed},
		"not found":                     {[]int{404}, false, 4, job.Abandoned, record.Completed},
		"redirected":                    {[]int{302}, false, 4, job.Abandoned, record.Completed},
		"never, required":               {[]int{503}, true, 4, job.Abandoned, record.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := &callbackReceiver{statuses: c.statuses}
			w, clock := startLeaping(t, options(t, t.TempDir(), calling(t, in, c.required)))
			b := w.submit(Submission{Filename: "f.txt", LocalIDs: []string{"l1"}}, "text")
			j := w.children(b.ID, 1)[0]
			n := 0
			m := w.awaitCallback(j.ID, func() {
				if all := w.callbacks(j.ID); len(all) == 1 && len(all[0].Tried) > n {
					n = len(all[0].Tried)
					clock.leap(24 * time.Hour)
				}
			}, settledAs(c.want))
			j = w.end(j.ID)
			if j.State != c.state || c.state == record.Completed && (j.Message != "" || j.Cause != "") ||
				c.state == record.Failed && (j.Cause != CauseCallback || j.Origin != record.Notify) {
				t.Errorf("got %s, cause %q: %s", j.State, j.Cause, j.Message)
			}
			keys := in.calls(record.Completed)
			if len(keys) != c.calls || in.badSign > 0 || len(w.callbacks(j.ID)) != 1 ||
				len(in.calls(record.Failed)) > 0 {
				t.Errorf("got %d calls, %d wrongly signed, and the messages %+v; want %d calls", len(keys), in.badSign,
					w.callbacks(j.ID), c.calls)
			}
			if keys = distinct(keys); len(keys) != 1 || keys[0] != m.Key ||
				m.Key != fmt.Sprintf("%s/callback/0/completed", j.ID) {
				t.Errorf("got the keys %v", keys)
			}
			if bodies := distinct(in.bodies); len(bodies) != 1 {
				t.Errorf("got the bodies %q", bodies)
			}
			if n := in.last(); n.ARK == "" || n.Version != 1 || n.LocalIDs[0] != "l1" || n.Job != j.ID ||
				n.Batch != b.ID || n.Profile != "test" {
				t.Errorf("got %+v", n)
			}
			if len(w.object(in.last().ARK).Versions) != 1 {
				t.Error("the object is stored whatever the callback answers")
			}
			w.valid()
		})
	}
}

// TestCallbackIsReplayed: what a receiver did not take for a while is sent again under its key. Without a callback
// there is no message, the control.
func TestCallbackIsReplayed(t *testing.T) {
	in := &callbackReceiver{statuses: []int{404}}
	w, clock := startLeaping(t, options(t, t.TempDir(), calling(t, in, false)))
	j := w.end(w.children(w.submit(Submission{Filename: "f.txt"}, "text").ID, 1)[0].ID)
	m := w.awaitCallback(j.ID, func() { clock.leap(24 * time.Hour) }, settledAs(job.Abandoned))
	if j.State != record.Completed || !strings.Contains(m.Error, "404 Not Found") || m.Attempts != 4 {
		t.Errorf("got %s and %+v", j.State, m)
	}
	in.answers(200)
	if err := w.e.Operator().Replay(t.Context(), []string{m.Key}, "op", "the receiver is back"); err != nil {
		t.Fatal(err)
	}
	m = w.awaitCallback(j.ID, nil, settledAs(job.Delivered))
	keys := in.calls(record.Completed)
	if len(keys) != 5 || len(distinct(keys)) != 1 || keys[0] != m.Key || len(distinct(in.bodies)) != 1 {
		t.Errorf("got %v and %q", keys, in.bodies)
	}

	silent := start(t)
	j = silent.end(silent.children(silent.submit(Submission{Filename: "f.txt"}, "text").ID, 1)[0].ID)
	if all := silent.callbacks(j.ID); len(all) > 0 {
		t.Errorf("control: got %+v", all)
	}
}

// TestRequiredCallbackIsWaitedFor: why names the answer, and a retry sends a message of its own.
func TestRequiredCallbackIsWaitedFor(t *testing.T) {
	in := &callbackReceiver{statuses: []int{404}}
	w, clock := startLeaping(t, options(t, t.TempDir(), calling(t, in, true)))
	batch := w.submit(Submission{Filename: "f.txt"}, "text").ID
	id := w.children(batch, 1)[0].ID
	w.awaitCallback(id, nil, triedTimes(1))
	w.until(id, func(j *job.Job) bool { return strings.Contains(j.Message, "404 Not Found") })
	x, err := explain.New(w.e).Why(t.Context(), id, time.Time{})
	if err != nil || x.Position.State != record.Notify || !slices.ContainsFunc(x.Blockers, func(b job.Blocker) bool {
		return b.Code == CauseCallback && strings.Contains(b.Sentence, "was not delivered yet") &&
			strings.Contains(b.Sentence, "404 Not Found")
	}) {
		t.Errorf("got %+v, %v", x, err)
	}
	w.awaitCallback(id, func() { clock.leap(24 * time.Hour) }, settledAs(job.Abandoned))
	if j := w.end(id); j.State != record.Failed || j.Cause != CauseCallback ||
		!strings.Contains(j.Message, "404 Not Found") {
		t.Fatalf("got %s, cause %q: %s", j.State, j.Cause, j.Message)
	}
	in.answers(200)
	w.end(batch) // while it reports, its jobs stay as they are
	if err := w.do(id, record.Retry); err != nil {
		t.Fatal(err)
	}
	if j := w.end(id); j.State != record.Completed || j.Message != "" {
		t.Errorf("got %s: %s", j.State, j.Message)
	}
	if m := w.callbacks(id); len(m) != 2 || m[0].Key != string(id)+"/callback/1/completed" ||
		m[0].Settled != job.Delivered || m[1].Settled != job.Abandoned {
		t.Errorf("got %+v", m)
	}
}

// TestStopWhileACallbackIsAwaited: the failure of a job that is stopped while it waits for its callback is reported.
func TestStopWhileACallbackIsAwaited(t *testing.T) {
	in := &callbackReceiver{statuses: []int{503}}
	w, _ := startLeaping(t, options(t, t.TempDir(), calling(t, in, true)))
	id := w.children(w.submit(Submission{Filename: "f.txt"}, "text").ID, 1)[0].ID
	w.awaitCallback(id, nil, triedTimes(1))
	w.until(id, func(j *job.Job) bool { return strings.Contains(j.Message, "503") })
	in.answers(200)
	for {
		err := w.do(id, record.Stop)
		if err == nil {
			break
		}
		// the job reads the outbox at the moment
		if kind := job.KindOf(err); kind != job.Conflict && kind != job.Stale {
			t.Fatal(err)
		}
	}
	m := w.awaitCallback(id, nil, settledAs(job.Delivered))
	if n := in.last(); m.Key != string(id)+"/callback/0/failed" || n.State != "Failed" {
		t.Errorf("got %+v with %+v", m, n)
	}
}

// TestCallbackOfFailure: a job that fails, is stopped or withdrawn calls too, whatever caused it, and its success after
// a retry calls again.
func TestCallbackOfFailure(t *testing.T) {
	in := &callbackReceiver{statuses: []int{200}}
	s := newSite(t, map[string]string{"late.txt": "late"})
	s.put("o.checkm", s.manifest("late.txt"))
	s.answer("late.txt", http.NotFound)
	p := calling(t, in, false)
	w := start(t, p)
	rows := manifest("mrt-batch-manifest", s.row("o.checkm", "l1", "One"))
	b := w.submit(Submission{Filename: "b.checkm"}, rows)
	id := w.children(b.ID, 1)[0].ID
	w.end(b.ID)
	m := w.awaitCallback(id, nil, settledAs(job.Delivered))
	if n := in.last(); m.Key != string(id)+"/callback/0/failed" || n.State != "Failed" || n.Cause != CauseNotFound ||
		n.Message == "" || n.LocalIDs[0] != "l1" || n.Version != 0 {
		t.Errorf("got %+v with %+v", m, n)
	}
	s.answer("late.txt", nil)
	if err := w.do(id, record.Retry); err != nil {
		t.Fatal(err)
	}
	w.end(id)
	m = w.awaitCallback(id, nil, settledAs(job.Delivered))
	if n := in.last(); m.Key != string(id)+"/callback/1/completed" || n.State != "Completed" || n.Cause != "" ||
		n.Version != 1 {
		t.Errorf("after the retry: got %+v with %+v", m, n)
	}

	stop := job.Scope{Kind: record.JobKind, State: record.Storing}
	if _, err := w.e.Operator().Hold(t.Context(), stop, "op", "test", time.Time{}); err != nil {
		t.Fatal(err)
	}
	id = w.children(w.submit(Submission{Filename: "f.txt"}, "text").ID, 1)[0].ID
	w.until(id, func(j *job.Job) bool { return j.State == record.Storing })
	if err := w.do(id, record.Stop); err != nil {
		t.Fatal(err)
	}
	w.awaitCallback(id, nil, settledAs(job.Delivered))
	if n := in.last(); n.State != "Failed" || n.Job != id {
		t.Errorf("stopped: got %+v", n)
	}

	if _, err := w.e.Operator().Hold(t.Context(), job.Scope{Kind: record.JobKind, Group: "maps"}, "op", "test",
		time.Time{}); err != nil {
		t.Fatal(err)
	}
	id = w.children(w.submit(Submission{Filename: "g.txt"}, "text").ID, 1)[0].ID
	w.until(id, func(j *job.Job) bool { return j.State == record.Held })
	if len(w.callbacks(id)) > 0 {
		t.Error("a job that is held has not ended")
	}
	if _, err := w.e.Do(t.Context(), operator.Act{Job: id, Event: record.Delete, By: lifecycle.Operator, Actor: "op",
		Note: "test", Confirm: true}); err != nil {
		t.Fatal(err)
	}
	m = w.awaitCallback(id, nil, settledAs(job.Delivered))
	if n := in.last(); n.State != "Deleted" || m.Key != string(id)+"/callback/0/deleted" {
		t.Errorf("withdrawn: got %+v with %+v", m, n)
	}
}

// asked is a request as a receiver of callbacks got it.
type asked struct {
	method, url, user, password, media, signature string
	body                                          string
}

// TestCallbackInMerrittsForm compares address, authentication and body byte for byte.
func TestCallbackInMerrittsForm(t *testing.T) {
	got := make(chan asked, 10)
	in := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		user, password, _ := r.BasicAuth()
		got <- asked{r.Method, r.URL.String(), user, password, r.Header.Get("Content-Type"),
			r.Header.Get(webhook.HeaderSignature), string(body)}
	}))
	t.Cleanup(in.Close)
	s := newSite(t, map[string]string{"a.txt": "alpha", "late.txt": "late"})
	s.put("a.checkm", s.manifest("a.txt"))
	s.put("late.checkm", s.manifest("late.txt"))
	s.answer("late.txt", http.NotFound)
	p := testProfile()
	p.Callback = &profile.Callback{URL: strings.Replace(in.URL, "http://", "http://ann@", 1) + "/base/?dept=maps",
		PasswordFile: secretFile(t, "s3cret"), Form: profile.FormMerritt, Resolver: "https://n2t.net/"}
	w := start(t, p)
	rows := map[string]string{
		"COMPLETED": s.row("a.checkm", "l1; l2", "One"), "FAILED": s.row("late.checkm", "l3", "Two"),
	}
	for status, row := range rows {
		b := w.submit(Submission{Filename: "b.checkm"}, manifest("mrt-batch-manifest", row))
		j := w.end(w.children(b.ID, 1)[0].ID)
		created, ended := j.Created.UTC().Format(time.RFC3339), j.Entered.UTC().Format(time.RFC3339)
		want := fmt.Sprintf(`{"job:jobState":{"xmlns:job":"http://uc3.cdlib.org/ontology/mrt/ingest/job","job:jobStatus":"FAILED","job:jobStatusMessage":%q,"job:jobID":"%s","job:batchID":"%s","job:localID":"l3",`+
			`"job:packageName":"late.checkm","job:objectTitle":"Two","job:objectCreator":"A. Person","job:objectDate":"2009","job:userAgent":"ann",`+
			`"job:submissionDate":"%s","job:completionDate":"%s"}}`, j.Message, j.ID, b.ID, created, ended)
		if status == "COMPLETED" {
			ark := w.reported(w.end(b.ID).ID).Jobs[0].ARK
			want = fmt.Sprintf(`{"job:jobState":{"xmlns:job":"http://uc3.cdlib.org/ontology/mrt/ingest/job","job:jobStatus":"COMPLETED","job:jobID":"%s","job:batchID":"%s","job:primaryID":"%s","job:localID":"l1;l2","job:versionID":1,`+
				`"job:packageName":"a.checkm","job:objectTitle":"One","job:objectCreator":"A. Person","job:objectDate":"2009","job:userAgent":"ann",`+
				`"job:submissionDate":"%s","job:completionDate":"%s","job:persistentURL":"https://n2t.net/%s"}}`, j.ID, b.ID, ark, created,
				ended, ark)
		}
		select {
		case a := <-got:
			if a.body != want {
				t.Errorf("%s: got\n%s, want\n%s", status, a.body, want)
			}
			if a.body = ""; a != (asked{"POST", "/base/mc/" + string(j.ID) + "?dept=maps", "ann", "s3cret",
				"application/json", "", ""}) {
				t.Errorf("%s: got %+v", status, a)
			}
		case <-time.After(guard):
			t.Fatalf("%s: nothing came", status)
		}
	}
}

// TestCallbackIsGuarded: a private address is not called unless the profile allows it; every other test here is the
// control. Neither list nor error shows the password of the URL.
func TestCallbackIsGuarded(t *testing.T) {
	in := &callbackReceiver{statuses: []int{200}}
	p := calling(t, in, false)
	p.Networks, p.Callback.URL = nil, strings.Replace(p.Callback.URL, "http://", "http://ann@", 1)
	p.Callback.PasswordFile = secretFile(t, "hush4711")
	w := start(t, p)
	j := w.end(w.children(w.submit(Submission{Filename: "f.txt"}, "text").ID, 1)[0].ID)
	m := w.awaitCallback(j.ID, nil, triedTimes(1))
	if !strings.Contains(m.Error, "loopback") || len(in.calls(record.Completed)) > 0 ||
		strings.Contains(fmt.Sprintf("%+v %s", m, m.Body), "hush4711") {
		t.Errorf("got %+v", m)
	}
}

// TestCallbackFollowsItsProfile: what waits goes where the profile leads at the attempt, and nowhere once there is no
// callback any more.
func TestCallbackFollowsItsProfile(t *testing.T) {
	w := start(t, testProfile())
	call := called{Profile: "test", Form: profile.FormStagepost, Body: []byte(`{}`)}
	text, err := json.Marshal(call)
	if err != nil {
		t.Fatal(err)
	}
	err = w.deliverCallback(t.Context(),
		job.Message{Key: "ing_1/callback/0/completed", Job: "ing_1", Topic: callbackTopic, Body: text})
	if err == nil || !strings.Contains(err.Error(), "profile test has no callback any more") {
		t.Errorf("got %v", err)
	}
}

// TestDeathCallsBackUnderOneKey kills the process after every commit in the life of a batch with an object that is
// stored and one that fails, and lets another process go on: one message and one key for each end. (Death before a
// commit is death after the one before it.)
func TestDeathCallsBackUnderOneKey(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha"})
	s.put("one.checkm", s.manifest("a.txt"))
	s.put("two.checkm", s.manifest("missing.txt"))
	text := manifest("mrt-batch-manifest", s.row("one.checkm", "l1", "One"), s.row("two.checkm", "l2", "Two"))
	sub := Submission{Profile: "test", Submitter: "ann", Key: "k", Notification: "ann@example.org"}
	for _, required := range []bool{false, true} {
		prepare := func(t *testing.T, in *callbackReceiver) Options {
			p := calling(t, in, required)
			p.Suppress = profile.SuppressNone // live waits for the mails
			return options(t, leavable(t), p)
		}
		whole := newCrashing(mem.New(), 0, false)
		whole.Few = true
		live(t, whole, prepare(t, &callbackReceiver{statuses: []int{200}}), sub, text)
		calls := whole.Calls() + 4 // its last messages were perhaps not settled
		t.Logf("required %t: the life of the batch has %d commits", required, calls)
		for at := 0; at <= calls; at++ { // none crashes at 0, which is the control
			t.Run(fmt.Sprintf("required=%t/%d", required, at), func(t *testing.T) {
				t.Parallel()
				in := &callbackReceiver{statuses: []int{200}}
				m, o := newCrashing(mem.New(), at, true), prepare(t, in)
				m.Few = true
				live(t, m, o, sub, text)
				w := startOn(t, m.Store, o)
				b := w.end(w.submit(sub, text).ID)
				jobs := w.children(b.ID, 2)
				for i, state := range []lifecycle.State{record.Completed, record.Failed} {
					key := fmt.Sprintf("%s/callback/0/%s", jobs[i].ID, strings.ToLower(string(state)))
					w.awaitCallback(jobs[i].ID, nil, settledAs(job.Delivered))
					if all := w.callbacks(jobs[i].ID); len(all) != 1 || all[0].Key != key {
						t.Errorf("got %+v, want %s", all, key)
					}
					if keys := distinct(in.calls(state)); len(keys) != 1 || keys[0] != key {
						t.Errorf("got the calls %v, want %s", keys, key)
					}
				}
				w.stop()
			})
		}
	}
}
