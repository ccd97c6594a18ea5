package pdf

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// direct is the claim API without HTTP.
type direct struct {
	*engine.Engine
	reports func() error // before a report; nil: nothing
}

func (d *direct) Claim(ctx context.Context, r api.Claim) (out []api.Leased, err error) {
	for end := time.Now().Add(time.Duration(r.Wait) * time.Second); ; time.Sleep(time.Second) {
		jobs, err := d.Remote().Claim(ctx, remote.Claim{Worker: r.Worker, From: r.From, N: r.N, Lease: time.Duration(r.Lease * float64(time.Second))})
		for _, j := range jobs {
			out = append(out, api.LeasedOf(&j))
		}
		if len(out) > 0 || err != nil || ctx.Err() != nil || time.Now().After(end) {
			return out, err
		}
	}
}

func (d *direct) Renew(ctx context.Context, r api.Renewal) ([]job.Lease, error) {
	return d.Remote().Renew(ctx, r.Worker, r.Leases, time.Duration(r.Lease*float64(time.Second)))
}

func (d *direct) Report(ctx context.Context, r api.Reports) ([]api.Reported, error) {
	if d.reports != nil {
		if err := d.reports(); err != nil {
			return nil, err
		}
	}
	out := make([]api.Reported, len(r.Reports))
	for i, one := range r.Reports {
		j, err := d.Store().Get(ctx, one.Job)
		if err != nil {
			return nil, err
		}
		results, err := d.Remote().Report(ctx, r.Worker, []job.Job{j}, []remote.Report{{
			Job: one.Job, Epoch: one.Epoch, Retry: one.Retry, Fail: one.Fail, Cause: one.Cause, Data: one.Data,
			Yield: one.Yield,
		}})
		if err == nil {
			err = results[0].Err
		}
		if err != nil {
			return nil, err
		}
		out[i].Job = one.Job
	}
	return out, nil
}

func (d *direct) Update(_ context.Context, r api.Reports) ([]api.Reported, error) {
	return make([]api.Reported, len(r.Reports)), nil // log lines
}

func (d *direct) WorkerJob(context.Context, api.WorkerLease) (api.WorkerJob, error) {
	return api.WorkerJob{}, errors.New("no step reads its job")
}

// printer prints the document in capitals; its first calls fail.
type printer struct {
	mu    sync.Mutex
	calls int
	fails int
	err   error
	slow  time.Duration
	most  int // at once
	now   int
}

func (p *printer) Render(ctx context.Context, _ string, page Page, in io.Reader, out io.Writer) error {
	p.mu.Lock()
	p.calls++
	p.now++
	p.most = max(p.most, p.now)
	fail := p.calls <= p.fails
	p.mu.Unlock()
	defer func() { p.mu.Lock(); p.now--; p.mu.Unlock() }()
	select {
	case <-time.After(p.slow):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if fail {
		return p.err
	}
	text, err := io.ReadAll(in)
	if err == nil {
		_, err = fmt.Fprintf(out, "%s: %s", page.Title, bytes.ToUpper(text))
	}
	return err
}

// harness is the application on an engine with a store in memory, in a synctest bubble.
type harness struct {
	*App
	t      *testing.T
	claims *direct
	dir    string
}

func bubble(t *testing.T, test func(h *harness)) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		a, err := Open(filepath.Join(dir, "pdf"), Settings{})
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.New(mem.New(), a.Works(), engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		a.Bind(e)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		synctest.Wait()
		test(&harness{a, t, &direct{Engine: e}, dir})
		stop()
		if err := <-done; err != nil && job.KindOf(err) != job.Unavailable {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
}

func (h *harness) work(p Printer) (stop func()) {
	w := NewWorker(h.claims, h, p, WorkerOptions{Parallel: 2, Temp: filepath.Join(h.dir, "temp")})
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Error(err)
		}
	}
}

func (h *harness) order(file, text string) job.Job {
	h.t.Helper()
	j, err := h.Order(h.t.Context(), "arc_1", "ann", file, Page{}, strings.NewReader(text))
	if err != nil {
		h.t.Fatal(err)
	}
	return j
}

func (h *harness) end(id job.ID) job.Job {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 72*time.Hour)
	defer cancel()
	j, err := h.engine.Await(ctx, id, func(j *job.Job) bool { return j.Ended })
	if err != nil {
		now, _ := h.engine.Store().Get(h.t.Context(), id)
		h.t.Fatalf("%v: %+v", err, now)
	}
	return j
}

func (h *harness) read(j *job.Job) string {
	h.t.Helper()
	f, r, err := h.Result(j)
	if err != nil {
		h.t.Fatalf("%v: %s %s", err, j.State, j.Message)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil || digest(text) != r.SHA256 {
		h.t.Errorf("got %s, %v", text, err)
	}
	return string(text)
}

// TestWorker: several documents are printed at once, each order once; the same order gives the same job.
func TestWorker(t *testing.T) {
	bubble(t, func(h *harness) {
		p := &printer{slow: 3 * time.Minute} // longer than a claim: it is renewed
		stop := h.work(p)
		var all []job.Job
		for i := range 5 {
			all = append(all, h.order(fmt.Sprint("a", i, ".html"), fmt.Sprint("text ", i)))
		}
		if again := h.order("a0.html", "text 0"); again.ID != all[0].ID {
			t.Error("the same order makes another job")
		}
		if other := h.order("a0.html", "text 0 changed"); other.ID == all[0].ID {
			t.Error("control: another document has the same job")
		}
		for i, j := range all {
			j = h.end(j.ID)
			if got, want := h.read(&j), fmt.Sprintf("a%d.html: TEXT %d", i, i); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		if p.most != 2 {
			t.Errorf("%d at once, want 2", p.most)
		}
		stop()
		if err := h.Remove(t.Context(), "arc_1"); err != nil {
			t.Error(err)
		}
		j := h.end(all[0].ID)
		if _, _, err := h.Result(&j); job.KindOf(err) != job.NotFound {
			t.Errorf("got %v", err)
		}
	})
}

// TestFailures: a failure that can pass is tried again, one that stays ends the job with its cause.
func TestFailures(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails int
		err   error
		want  lifecycle.State
		cause string
		calls int
	}{
		{"control", 0, nil, Rendered, "", 1},
		{"crash", 2, &Error{CauseRender, true, errors.New("it ended by SIGSEGV")}, Rendered, "", 3},
		{"always", 9, &Error{CauseRender, true, errors.New("it ended by SIGSEGV")}, Failed, CauseRender, 3},
		{"login page", 9, failed(CauseDocument, ErrLogin), Failed, CauseDocument, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				p := &printer{fails: c.fails, err: c.err}
				defer h.work(p)()
				j := h.end(h.order("a.html", "text").ID)
				if j.State != c.want || j.Cause != c.cause || p.calls != c.calls {
					t.Errorf("got %s (%s) after %d calls: %s", j.State, j.Cause, p.calls, j.Message)
				}
			})
		})
	}
}

// TestCrash: a worker that stops while it prints, and one whose report is lost, lose nothing: another one goes on.
func TestCrash(t *testing.T) {
	bubble(t, func(h *harness) {
		stop := h.work(&printer{slow: 100 * time.Hour})
		j := h.order("a.html", "text")
		time.Sleep(time.Minute)
		stop()
		lost := 3
		h.claims.reports = func() error {
			if lost--; lost >= 0 {
				return job.Errorf(job.Unavailable, "report", "", "the server is restarting")
			}
			return nil
		}
		defer h.work(&printer{})()
		j = h.end(j.ID)
		if got := h.read(&j); got != "a.html: TEXT" || lost >= 0 {
			t.Errorf("got %q; %d reports were not lost", got, lost)
		}
	})
}

// TestOwes: a report without the file, or with another one, is refused.
func TestOwes(t *testing.T) {
	bubble(t, func(h *harness) {
		j := h.order("a.html", "text")
		leased, err := h.claims.Claim(t.Context(), api.Claim{Worker: "w", N: 1, Lease: 3600,
			From: []job.KindState{{Kind: Kind, State: Rendering}}})
		if err != nil || len(leased) != 1 {
			t.Fatal(leased, err)
		}
		report := func(data string) error {
			_, err := h.claims.Report(t.Context(), api.Reports{Worker: "w", Reports: []api.Report{
				{Job: j.ID, Epoch: leased[0].Epoch, Data: json.RawMessage(data)}}})
			return err
		}
		good := Result{Size: 3, SHA256: digest([]byte("PDF"))}
		text, _ := json.Marshal(good)
		for _, data := range []string{"{}", `{"size":3,"sha256":"../x"}`, string(text)} {
			if err := report(data); job.KindOf(err) != job.Refused {
				t.Errorf("%s: got %v", data, err)
			}
		}
		if err := h.Put(t.Context(), &leased[0], good, strings.NewReader("XYZ")); err == nil {
			t.Error("another file is accepted")
		}
		if err := h.Put(t.Context(), &leased[0], good, strings.NewReader("PDF")); err != nil {
			t.Fatal(err)
		}
		if err := report(strings.Replace(string(text), `"size":3`, `"size":4`, 1)); job.KindOf(err) != job.Refused {
			t.Errorf("another size: got %v", err)
		}
		if err := report(string(text)); err != nil {
			t.Errorf("control: %v", err)
		}
	})
}

// TestCancel: the worker stops when the job is cancelled, and does not report.
func TestCancel(t *testing.T) {
	bubble(t, func(h *harness) {
		p := &printer{slow: 100 * time.Hour}
		defer h.work(p)()
		j := h.order("a.html", "text")
		time.Sleep(time.Minute)
		act := operator.Act{Job: j.ID, Event: Cancel, By: lifecycle.Owner, Actor: "ann"}
		if _, err := h.engine.Do(t.Context(), act); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.now != 0 {
			t.Error("it still prints")
		}
		if j = h.end(j.ID); j.State != Cancelled {
			t.Errorf("got %s", j.State)
		}
	})
}

// TestRemove: the open jobs of an archive job are cancelled before their files are removed, and no other job is.
func TestRemove(t *testing.T) {
	bubble(t, func(h *harness) {
		p := &printer{slow: time.Hour}
		defer h.work(p)()
		printing, other := h.order("a.html", "text"), job.ID("arc_2")
		mine, err := h.Order(t.Context(), other, "ann", "a.html", Page{}, strings.NewReader("text"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for range 2 {
			if err := h.Remove(t.Context(), "arc_1"); err != nil {
				t.Fatal(err)
			}
		}
		if j := h.end(printing.ID); j.State != Cancelled {
			t.Errorf("got %s", j.State)
		}
		if j := h.end(mine.ID); j.State != Rendered {
			t.Errorf("control: got %s: %s", j.State, j.Message)
		}
		if err := h.Remove(t.Context(), other); err != nil {
			t.Error(err)
		}
		if j := h.end(mine.ID); j.State != Rendered {
			t.Errorf("a printed job is %s", j.State)
		}
	})
}

// TestStanding: gauges count failed jobs by cause, and see a job that no worker claims, until one does.
func TestStanding(t *testing.T) {
	bubble(t, func(h *harness) {
		standing := func() Standing {
			s, err := h.Standing(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		if s := standing(); !s.Oldest.IsZero() || s.Failed[CauseDocument] != 0 || len(s.Failed) != len(Causes())+1 {
			t.Errorf("control: got %+v", s)
		}
		j := h.order("a.html", "text")
		if s := standing(); !s.Oldest.Equal(j.Created) {
			t.Errorf("got %+v, want %s", s, j.Created)
		}
		stop := h.work(&printer{slow: time.Minute, fails: 9, err: failed(CauseDocument, ErrLogin)})
		synctest.Wait()
		time.Sleep(2 * time.Second)
		if s := standing(); !s.Oldest.IsZero() {
			t.Errorf("a claimed job counts: %+v", s)
		}
		h.end(j.ID)
		if s := standing(); s.Failed[CauseDocument] != 1 || s.Failed[otherCause] != 0 {
			t.Errorf("got %+v", s)
		}
		stop()
	})
}
