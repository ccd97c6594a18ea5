package compute_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
)

// leaving is an executor whose results leave something out.
type leaving struct {
	*fake
	left compute.LeftOut
}

func (l leaving) Query(ctx context.Context, h compute.Handle) (compute.Notice, error) {
	n, err := l.fake.Query(ctx, h)
	n.LeftOut = l.left
	return n, err
}

func (l leaving) Submit(ctx context.Context, p *compute.Parcel) (compute.Notice, error) {
	n, err := l.fake.Submit(ctx, p)
	n.LeftOut = l.left
	return n, err
}

// TestWhatWasLeftOut stands in the record and in the message of the job, whatever its end; of an executor that reports
// too much, only so much is kept. In the control nothing was left out, and nothing is reported.
func TestWhatWasLeftOut(t *testing.T) {
	flood := compute.LeftOut{Skipped: 5000, Reasons: map[string]int{}}
	for i := range 1000 {
		flood.Reasons[fmt.Sprint("reason", i)] = 5
		flood.Names = append(flood.Names, compute.LeftFile{Name: strings.Repeat("n", 10_000),
			Why: strings.Repeat("w", 10_000)})
	}
	odd := compute.LeftOut{Skipped: 3, Reasons: map[string]int{"link": 2, "fifo": 1}, Renamed: 1,
		Names: []compute.LeftFile{
			{Name: "out", Why: "a link"}, {Name: "pipe", Why: "a FIFO"}, {Name: "up", Why: "a link"},
			{Name: "x", Why: "stored as y"},
		}}
	for _, c := range []struct {
		name, message string
		left          compute.LeftOut
		exit          int
	}{
		{"nothing", "", compute.LeftOut{}, 0},
		{"some", "left out of its results: 2 links that lead out, 1 pipe; stored under other names: 1 (out, pipe, up, x)", odd, 0},
		{"of one that failed", "exit 3; left out of its results: 2 links", odd, 3},
		{"too much", "left out of its results: ", flood, 0},
	} {
		runInBubble(t, c.name, func(t *testing.T) {
			f := newFake()
			f.auto = false
			w := newHarness(t, quick(t), one(notifier2{leaving{f, c.left}}))
			j := w.upload("ada", hello)
			w.until(j.ID, compute.Running)
			e := &compute.Ending{}
			if c.exit != 0 {
				e = &compute.Ending{Exit: c.exit, Cause: compute.CauseExit, Sentence: "exit 3"}
			}
			f.finish(j.ID, e)
			got := w.until(j.ID, compute.Completed, compute.Failed)
			d, err := compute.DataOf(&got)
			if err != nil || d.Results == nil || d.Results.Skipped != c.left.Skipped ||
				d.Results.Renamed != c.left.Renamed {
				t.Fatalf("its data are %+v, %v", d.Results, err)
			}
			if !strings.HasPrefix(got.Message, c.message) || c.message == "" && got.Message != "" {
				t.Errorf("the message is %q", got.Message)
			}
			if len(got.Data) > 32<<10 {
				t.Errorf("its data have %d bytes", len(got.Data))
			}
			if _, text := w.whyOf(j.ID); !strings.Contains(text, c.message) {
				t.Errorf("why: %s", text)
			}
		})
	}
}

// notifier2 notifies of changes, for an executor that answers otherwise than a fake.
type notifier2 struct{ leaving }

func (f notifier2) Notify(ctx context.Context, connected func(), changed func(id job.ID)) error {
	return notifier{f.fake}.Notify(ctx, connected, changed)
}

// TestRefusedConnection is reported to users in one line, with the agent's name and without its address, in `why`, in
// the attempts and in the message of the failure.
func TestRefusedConnection(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake()
		dial := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 5602},
			Err: syscall.ECONNREFUSED}
		f.fault = func(call string, _ compute.Ticket) error {
			if call == "submit" {
				return errors.Join(compute.ErrNotSent, fmt.Errorf("submit: the request did not reach the agent: %w", dial))
			}
			return nil
		}
		o := quick(t)
		o.Retries, o.RetryFor = 3, 10*time.Second
		w := newHarness(t, o, one(f))
		j := w.upload("ada", hello)
		eventually(t, "it was tried", func() bool { codes, _ := w.whyOf(j.ID); return codes == "agent-backoff" })
		_, why := w.whyOf(j.ID)
		got := w.until(j.ID, compute.Failed)
		d, err := compute.DataOf(&got)
		if err != nil || len(d.Attempts) == 0 {
			t.Fatalf("attempts %+v, %v", d.Attempts, err)
		}
		for where, text := range map[string]string{"why": why, "message": got.Message, "attempt": d.Attempts[0].Error} {
			if strings.Contains(text, "5602") || strings.Contains(text, "10.1.2.3") || strings.Contains(text, "\n") ||
				strings.Contains(text, "parcel") || !strings.Contains(text, "refuses the connection") {
				t.Errorf("%s: %q", where, text)
			}
			if where != "attempt" && !strings.Contains(text, "a1") {
				t.Errorf("%s names no agent: %q", where, text)
			}
		}
	})
}

// TestTimes: what an executor does not report of a run is taken from the server's own clock, and an unknown code is
// none.
func TestTimes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake()
		f.auto = false
		o := quick(t)
		o.Recheck = time.Second // it is queried again and again, and runs no shorter for it
		w := newHarness(t, o, one(notifier{f}))
		j := w.upload("ada", hello)
		w.until(j.ID, compute.Running)
		f.mu.Lock()
		for _, p := range f.payloads {
			p.notice.Started = time.Time{}
		}
		f.mu.Unlock()
		time.Sleep(4300 * time.Millisecond)
		eventually(t, "it rests", func() bool { codes, _ := w.whyOf(j.ID); return codes == "agent" })
		if why, err := explain.New(w.eng).Why(t.Context(), j.ID, time.Time{}); err != nil || len(why.Blockers) != 1 ||
			time.Since(why.Blockers[0].Since) < 4*time.Second {
			t.Errorf("why: %+v, %v", why.Blockers, err)
		}
		f.finish(j.ID, &compute.Ending{Exit: -1, Cause: compute.CauseAgent, Sentence: "its agent ended"})
		got := w.until(j.ID, compute.Failed)
		d, err := compute.DataOf(&got)
		if err != nil {
			t.Fatal(err)
		}
		if started, finished := d.Times(); finished.Sub(started).Round(time.Second) != 4*time.Second {
			t.Errorf("it ran from %s to %s", started, finished)
		}
	})
}
