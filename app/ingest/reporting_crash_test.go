package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/report"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/edge/mail"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// reaper kills a process at a point: the moment before or after a call of the store, before, in the middle of or after
// the writing of a file, and each step of the dialogue with the mail server. From then on every goroutine of the
// process ends at its next point. Points count from the commit that brings the batch to Reporting, and again from the
// one that brings it to UpdateReporting.
//
// What changes the store, a file or the dialogue comes in the same order and number in every run: such changes are
// numbered as they begin. The end of a change has the number of its beginning, and is a point exactly if the beginning
// is one: others may read the effect of a change, and arm the reaper, before the call returns. When and how often the
// engine reads depends on the scheduler: the point of a read is the first read of its kind since a change of the store.
type reaper struct {
	mu      sync.Mutex // guards the rest
	at      string     // empty: never
	armed   bool
	again   chan struct{}  // closed when armed is set
	points  []string       // as they were passed
	times   map[string]int // of changes, by what happens
	changed []string       // changes of the store, as they began: others may read their effect before they return
	do      func()         // what happens at the point instead of death
	crashed bool
	dead    chan struct{} // closed at death
}

func newReaper(at string) *reaper {
	return &reaper{at: at, times: map[string]int{}, again: make(chan struct{}), dead: make(chan struct{})}
}

// number gives a change that begins its number. It returns "" while points do not count.
func (r *reaper) number(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.armed {
		return ""
	}
	r.times[name]++
	return fmt.Sprintf("%s %d", name, r.times[name])
}

// pass passes a point of a numbered change, and reports whether the process is dead.
func (r *reaper) pass(when, change string) bool {
	return r.passes(func() (string, bool) {
		if change == "" {
			return "", false
		}
		if when == "before " && !strings.HasPrefix(change, "write ") {
			r.changed = append(r.changed, change)
		}
		return when + change, when+change == r.at
	})
}

// passRead passes the point of a read, and reports whether the process is dead.
func (r *reaper) passRead(name string) bool {
	return r.passes(func() (string, bool) {
		if !r.armed {
			return "", false
		}
		since, ok := strings.CutPrefix(r.at, name+" since ")
		here := ok && slices.Contains(r.changed, since)
		if len(r.changed) == 0 || !follows(name, r.changed[len(r.changed)-1]) {
			return "", here
		}
		return name + " since " + r.changed[len(r.changed)-1], here
	})
}

// follows reports whether a read comes after a change in every run: a commit with messages wakes deliveries, a settled
// message wakes those of its topic, and a step reads its batch and its jobs. Other reads were only late: the first
// searches for messages, which begin with the process, may come after the report has begun.
func follows(read, change string) bool {
	_, read, _ = strings.Cut(read, " ")
	switch {
	case read == "claim":
		return strings.HasPrefix(change, "commit update")
	case strings.HasPrefix(read, "take"):
		silent := strings.HasPrefix(change, "commit report") || strings.HasPrefix(change, "commit update")
		return !silent && (strings.HasPrefix(change, "commit") || read == "take mail")
	}
	return strings.HasPrefix(change, "commit report") || strings.HasPrefix(change, "commit update")
}

// passes records a point and crashes at it, or does what is to happen there.
func (r *reaper) passes(point func() (name string, here bool)) bool {
	r.mu.Lock()
	do := func() {}
	defer func() { r.mu.Unlock(); do() }()
	if r.crashed {
		return true
	}
	name, here := point()
	if name != "" && !slices.Contains(r.points, name) {
		r.points = append(r.points, name)
	}
	switch {
	case !here:
	case r.do != nil:
		do = r.do
	default:
		r.crashed = true
		close(r.dead)
	}
	return r.crashed
}

// point passes a point of a numbered change, and ends the goroutine if the process is dead.
func (r *reaper) point(when, change string) {
	if r.pass(when, change) {
		runtime.Goexit()
	}
}

// read makes a call of the store that changes nothing but leases.
func (r *reaper) read(name string, do func()) {
	if r.passRead("before " + name) {
		runtime.Goexit()
	}
	do()
	if r.passRead("after " + name) {
		runtime.Goexit()
	}
}

// comes reports whether a point was passed, or follows one that was.
func (r *reaper) comes(at string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := at
	if call, ok := strings.CutPrefix(at, "after "); ok {
		before = "before " + call
	}
	return slices.Contains(r.points, at) || slices.Contains(r.points, before)
}

func (r *reaper) arm(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case on && !r.armed:
		close(r.again)
	case !on && r.armed:
		r.again = make(chan struct{})
	}
	r.armed = on
}

// hold waits until the reaper is armed, or the process is dead.
func (r *reaper) hold() {
	r.mu.Lock()
	again := r.again
	r.mu.Unlock()
	select {
	case <-again:
	case <-r.dead:
	}
}

// reaped is a store whose calls are points.
type reaped struct {
	job.Store
	*reaper
}

func (s reaped) call(name string, do func()) {
	change := s.number(name)
	s.point("before ", change)
	do()
	if change == "" && name == lateCommit {
		s.hold()
		change = name
	}
	s.point("after ", change)
}

// lateCommit ends a job while points do not count. It returns only when the update has begun: the depositor, who waits
// for the end of the job, may read it before, and this order has one point more.
const lateCommit = "commit finish of a job"

func (s reaped) Create(ctx context.Context, jobs ...job.Created) (made []job.Job, err error) {
	s.call("create", func() { made, err = s.Store.Create(ctx, jobs...) })
	return made, err
}

func (s reaped) Get(ctx context.Context, id job.ID) (j job.Job, err error) {
	s.read("get", func() { j, err = s.Store.Get(ctx, id) })
	return j, err
}

func (s reaped) List(ctx context.Context, q job.Query) (p job.Page, err error) {
	s.read("list", func() { p, err = s.Store.List(ctx, q) })
	return p, err
}

func (s reaped) Overdue(ctx context.Context, now time.Time, kinds []job.Kind, n int) (jobs []job.Job, err error) {
	s.read("overdue", func() { jobs, err = s.Store.Overdue(ctx, now, kinds, n) })
	return jobs, err
}

func (s reaped) Claim(ctx context.Context, c job.Claim) (jobs []job.Job, err error) {
	s.read("claim", func() { jobs, err = s.Store.Claim(ctx, c) })
	return jobs, err
}

func (s reaped) Commit(ctx context.Context, changes ...job.Change) (r []job.Result, err error) {
	name := "commit"
	for i := range changes {
		if to := changes[i].To.State; to == record.Reporting || to == record.UpdateReporting {
			s.arm(true)
		}
		name += " " + string(changes[i].Event)
		if changes[i].Event == record.Finish && strings.HasPrefix(string(changes[i].Job), "ing_") {
			name += " of a job"
		}
	}
	s.call(name, func() { r, err = s.Store.Commit(ctx, changes...) })
	return r, err
}

func (s reaped) Take(ctx context.Context, t job.Taking) (all []job.Message, err error) {
	name := strings.Join(t.Topics, " ")
	if t.Others {
		name = "others"
	}
	s.read("take "+name, func() { all, err = s.Store.Take(ctx, t) })
	return all, err
}

func (s reaped) Settle(ctx context.Context, messages ...job.Message) (err error) {
	s.call("settle", func() { err = s.Store.Settle(ctx, messages...) })
	return err
}

// put writes a file of a report; its middle is a point where the temporary file lies there half.
func (r *reaper) put(root *os.Root, name string, write func(io.Writer) error) error {
	change := r.number("write " + name)
	r.point("before ", change)
	err := workdir.PutFile(root, name, func(w io.Writer) error {
		var b strings.Builder
		if err := write(&b); err != nil {
			return err
		}
		if _, err := io.WriteString(w, b.String()[:b.Len()/2]); err != nil {
			return err
		}
		r.point("within ", change)
		_, err := io.WriteString(w, b.String()[b.Len()/2:])
		return err
	})
	r.point("after ", change)
	return err
}

// crashHarness is one submission that is reported on twice: its file is missing at first, and there for the retry.
type crashHarness struct {
	t     *testing.T
	store job.Store
	o     Options
	post  *postOffice
	site  *site
	mails int                                     // that each report puts into the outbox
	twist func(*App, []engine.Work) []engine.Work // a control: how reporting must not be done
	from  func(mail.Sender) mail.Sender           // another control: how mails must not be sent
}

func newCrashHarness(t *testing.T) *crashHarness {
	p := testProfile()
	p.Suppress = profile.SuppressPartial // the mail that it was queued would be sent at the same time
	w := &crashHarness{t: t, store: mem.New(), o: options(t, t.TempDir(), p), post: openPost(t), site: newSite(t, nil),
		mails: 1}
	w.from = func(s mail.Sender) mail.Sender { return s }
	w.twist = func(_ *App, works []engine.Work) []engine.Work { return works }
	return w
}

// live runs a process until all is done or it crashes at its point.
func (w *crashHarness) live(name string, r *reaper, clock clock.Clock) {
	o := w.o
	o.Mail = w.from(w.post.sender(w.t, name))
	w.post.on(func(step, hello string) error {
		if hello == name && r.pass("", r.number("mail server: "+step)) {
			return errHangUp
		}
		return nil
	})
	a, err := New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	a.putReport = r.put
	e, err := engine.New(reaped{w.store, r}, w.twist(a, a.Works()), engine.Options{
		Deliver: a.Deliver(), Sweep: time.Hour, Grace: time.Millisecond, Clock: clock,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	a.Bind(e)
	ctx, kill := context.WithCancel(w.t.Context())
	defer kill()
	var all sync.WaitGroup
	all.Go(func() { _ = e.Run(ctx) })
	done := make(chan struct{})
	all.Go(func() {
		if w.depositor(ctx, a, e, r) {
			close(done)
		}
	})
	select {
	case <-r.dead:
	case <-done:
		if r.at != "" { // a read after the last change may still come
			select {
			case <-r.dead:
			case <-time.After(5 * time.Second):
			}
		}
	case <-time.After(2 * time.Minute):
		w.t.Fatalf("neither done nor dead at %q, after %v", r.at, r.points)
	}
	kill()
	gone := make(chan struct{})
	go func() { all.Wait(); close(gone) }()
	select {
	case <-gone: // the last calls have returned, and passed the points after them
	case <-r.dead:
		select {
		case <-gone:
		// an engine that crashed in a call never gives its slots back; the test does not wait for it
		case <-time.After(20 * time.Millisecond):
		}
	}
	_ = a.Close()
}

// depositor submits, corrects the file after the first report, and asks, as the staff, for a retry and a second report.
// It begins again where a dead process left off, and reports whether it came to the end.
func (w *crashHarness) depositor(ctx context.Context, a *App, e *engine.Engine, r *reaper) bool {
	text := manifest("mrt-single-file-batch-manifest", fmt.Sprintf("%s/late.txt |  |  |  |  | late.txt", w.site.URL))
	b, err := a.Submit(ctx, Submission{Profile: "test", Submitter: "ann", Key: "k", Notification: "ann@example.org"},
		strings.NewReader(text))
	if err != nil {
		return false
	}
	ended := func(j *job.Job) bool { return j.Ended }
	if b, err = e.Await(ctx, b.ID, ended); err != nil {
		return false
	}
	if b.Retries == 0 {
		if !w.settled(ctx, b.ID, w.mails) {
			return false
		}
		r.arm(false)
		w.site.put("late.txt", "here it is")
		page, err := w.store.List(ctx, job.Query{Parent: b.ID})
		if err != nil || len(page.Jobs) != 1 {
			return false
		}
		child := page.Jobs[0]
		if child.State == record.Failed {
			if _, err := e.Do(ctx, operator.Act{Job: child.ID, Event: record.Retry, By: lifecycle.Operator,
				Actor: "op"}); err != nil {
				w.t.Errorf("retry: %v", err)
				return false
			}
		}
		if !w.until(ctx, func() (bool, error) { // the commit that ends it has not returned: see lateCommit
			j, err := w.store.Get(ctx, child.ID)
			return j.Ended, err
		}) {
			return false
		}
		if _, err := e.Do(ctx, operator.Act{Job: b.ID, Event: record.Update, By: lifecycle.Operator,
			Actor: "op"}); err != nil {
			w.t.Errorf("update: %v", err)
			return false
		}
		if b, err = e.Await(ctx, b.ID, ended); err != nil {
			return false
		}
	}
	return w.settled(ctx, b.ID, 2*w.mails)
}

// settled waits until the batch has so many mails and none of them waits any more.
func (w *crashHarness) settled(ctx context.Context, batch job.ID, n int) bool {
	return w.until(ctx, func() (bool, error) {
		messages, err := job.MessagesOf(ctx, w.store, batch)
		waits := slices.ContainsFunc(messages, func(m job.Message) bool { return m.Settled == job.Pending })
		return len(messages) >= n && !waits, err
	})
}

// until waits until the store has something. It reports false after an error.
func (w *crashHarness) until(ctx context.Context, has func() (bool, error)) bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if yes, err := has(); yes || err != nil {
			return err == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

// kinds are the two mails of the submission, by the beginning of their subjects: what a receiver takes for one mail.
var kinds = []string{"Ingest: FAIL -- Submission Processed", "Ingest: OK -- Submission Processed"}

// wrongMails returns what is wrong with the mails that arrived. open are the Message-IDs that were not settled when the
// first process crashed: the server may have accepted them without our knowing, and then they come a second time under
// the same id.
func wrongMails(got []parcel, open map[string]bool) (wrong []string, twice int) {
	for _, kind := range kinds {
		ids, first, second := map[string]bool{}, 0, 0
		for i := range got {
			if !strings.HasPrefix(got[i].head.Get("Subject"), kind) {
				continue
			}
			ids[got[i].id()] = true
			if got[i].hello == "first" {
				first++
			} else {
				second++
			}
		}
		if len(ids) != 1 {
			wrong = append(wrong, fmt.Sprintf("%q came under %d Message-IDs: %v", kind, len(ids), ids))
		}
		if first > 1 || second > 1 {
			wrong = append(wrong, fmt.Sprintf("%q came %d and %d times", kind, first, second))
		}
		for id := range ids {
			if first+second == 2 && !open[id] {
				wrong = append(wrong, fmt.Sprintf("%q came twice though it was settled", kind))
			}
		}
		if first+second == 2 {
			twice++
		}
	}
	return wrong, twice
}

// die kills a process at a point, lets another continue to the end, and checks the mails.
func (w *crashHarness) die(at string) (r *reaper, wrong []string, twice int) {
	r = newReaper(at)
	w.live("first", r, clock.System())
	open := map[string]bool{}
	page, err := w.store.List(w.t.Context(), job.Query{Kinds: []job.Kind{record.BatchKind}})
	if err != nil || len(page.Jobs) != 1 {
		w.t.Fatalf("got %d batches, %v", len(page.Jobs), err)
	}
	batch := page.Jobs[0].ID
	messages, err := job.MessagesOf(w.t.Context(), w.store, batch)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range messages {
		var l letter
		if err := json.Unmarshal(messages[i].Body, &l); err != nil {
			w.t.Fatal(err)
		}
		open[l.MessageID] = messages[i].Settled == job.Pending
	}
	if r.crashed {
		w.live("second", newReaper(""), later{clock.System()})
	}
	wrong, twice = wrongMails(w.post.all(), open)
	return r, append(wrong, w.reports(batch)...), twice
}

// reports checks the two reports on the disk, and that nothing half lies about.
func (w *crashHarness) reports(batch job.ID) (wrong []string) {
	for generation, want := range []struct{ completed, failed, succeeded int }{{0, 1, 0}, {1, 0, 1}} {
		text, err := os.ReadFile(filepath.Join(w.o.Dir, workdir.WorkName, string(batch),
			reportFile(generation, "json")))
		if err != nil {
			wrong = append(wrong, err.Error())
			continue
		}
		var r report.Batch
		if err := json.Unmarshal(text, &r); err != nil {
			wrong = append(wrong, fmt.Sprintf("report %d: %v", generation, err))
			continue
		}
		succeeded := 0
		if r.Changes != nil {
			succeeded = len(r.Changes.Succeeded)
		}
		if r.Generation != generation || r.Completed != want.completed || r.Failed != want.failed ||
			succeeded != want.succeeded {
			wrong = append(wrong, fmt.Sprintf("report %d is %s", generation, text))
		}
	}
	return wrong
}

// TestReportIsSentOncePerGeneration kills the process at every point of Reporting and UpdateReporting until their mails
// are settled, and lets another process go on to the end: each mail has one Message-ID, and arrives once, except that a
// process which crashes between the server's acceptance and our settling cannot know of the acceptance and sends it
// again under the same Message-ID.
func TestReportIsSentOncePerGeneration(t *testing.T) {
	whole := newCrashHarness(t)
	r, wrong, twice := whole.die("")
	if len(wrong) > 0 || twice > 0 {
		t.Fatalf("no process crashed: %v", wrong)
	}
	unknowable := []string{"mail server: accepted 1", "before settle 1", "mail server: accepted 2", "before settle 2"}
	for _, want := range append([]string{
		"before commit report 1", "before commit fail 1", "after commit fail 1", "before commit update 1",
		"before commit finish 1", "after commit finish 1",
		"within write reports/0.json 1", "within write reports/1.json 1", "mail server: data 1", "mail server: read 2",
		"after settle 2",
		"after take mail since commit fail 1", "before get since commit report 1", "after commit finish of a job",
	}, unknowable...) {
		if !slices.Contains(r.points, want) {
			t.Errorf("%q is no point: the points are %v", want, r.points)
		}
	}
	if len(r.points) != 61 {
		t.Errorf("%d points, want 61: %v", len(r.points), r.points)
	}
	var mu sync.Mutex // guards the rest
	crashed, windows := 0, map[string]bool{}
	t.Run("points", func(t *testing.T) {
		for _, at := range r.points {
			t.Run(at, func(t *testing.T) {
				t.Parallel()
				r, wrong, twice := newCrashHarness(t).die(at)
				for _, w := range wrong {
					t.Errorf("killed at %q: %s", at, w)
				}
				mu.Lock()
				defer mu.Unlock()
				if r.crashed {
					crashed++
				} else {
					t.Errorf("%q did not come about", at)
				}
				if twice > 0 {
					windows[at] = true
				}
			})
		}
	})
	if crashed < len(r.points) {
		t.Errorf("the process crashed at %d of %d points only", crashed, len(r.points))
	}
	t.Logf("%d points, the process crashed at %d; a mail came twice, under one Message-ID, in %d of them: %v",
		len(r.points), crashed, len(windows), windows)
	for _, at := range unknowable {
		if !windows[at] {
			t.Errorf("no mail came twice at %q, where it cannot be avoided", at)
		}
	}
	for at := range windows {
		if !slices.Contains(unknowable, at) && !strings.Contains(at, " take ") && !strings.Contains(at, " claim ") {
			t.Errorf("a mail came twice at %q", at)
		}
	}
}

// restless gives every delivery a Message-ID of its own.
type restless struct {
	mail.Sender
	n *int
}

func (r restless) Send(ctx context.Context, m mail.Message) error {
	*r.n++
	m.MessageID = fmt.Sprintf("%d.%s", *r.n, m.MessageID)
	return r.Sender.Send(ctx, m)
}

// TestReportIsSentOncePerGenerationSees is the control: without a Message-ID that follows from batch and generation,
// and without the outbox, the check finds the second mail.
func TestReportIsSentOncePerGenerationSees(t *testing.T) {
	t.Run("random Message-IDs", func(t *testing.T) {
		w := newCrashHarness(t)
		n := 0
		w.from = func(s mail.Sender) mail.Sender { return restless{s, &n} }
		_, wrong, _ := w.die("mail server: accepted 1")
		if !slices.ContainsFunc(wrong, func(s string) bool { return strings.Contains(s, "2 Message-IDs") }) {
			t.Errorf("got %v", wrong)
		}
	})
	t.Run("no outbox", func(t *testing.T) {
		w := newCrashHarness(t).silent()
		w.twist = func(a *App, works []engine.Work) []engine.Work {
			works[0].Steps[record.Reporting] = func(ctx context.Context, r *engine.Run) error {
				err := a.report(ctx, r)
				if sent := a.options.Mail.Send(ctx, mail.Message{
					From: "x@localhost", To: []string{"ann@example.org"}, Subject: kinds[0],
					MessageID: string(r.Job().ID) + ".report.0@localhost",
					Date:      r.Now(), Text: "sent by the step itself",
				}); sent != nil {
					return sent
				}
				return err
			}
			return works
		}
		first := func(wrong []string) []string { // about the first report: the second is not sent
			return slices.DeleteFunc(wrong, func(s string) bool { return !strings.Contains(s, kinds[0]) })
		}
		if r, wrong, _ := w.die("before commit fail 1"); !r.crashed || len(first(wrong)) == 0 {
			t.Errorf("killed: got %v", wrong)
		}
		alive := w.again(t)
		if _, wrong, _ := alive.die(""); len(first(wrong)) > 0 {
			t.Errorf("not killed: got %v", wrong)
		}
	})
}

// silent takes the outbox from a harness: its profile sends no mails.
func (w *crashHarness) silent() *crashHarness {
	p := testProfile()
	p.Suppress = profile.SuppressFull
	w.o, w.mails = options(w.t, w.o.Dir, p), 0
	return w
}

// again is the same harness before anything happened.
func (w *crashHarness) again(t *testing.T) *crashHarness {
	n := newCrashHarness(t)
	n.twist, n.from = w.twist, w.from
	if w.mails == 0 {
		return n.silent()
	}
	return n
}
