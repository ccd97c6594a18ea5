package compute_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// mute is an executor that takes parcels and gives results and no answers while the test requires it.
type mute struct {
	notifier
	call string // that gets no answer
}

func (m *mute) Submit(ctx context.Context, p *compute.Parcel) (compute.Notice, error) {
	n, err := m.notifier.Submit(ctx, p)
	if m.call == "submit" {
		<-ctx.Done()
		return compute.Notice{}, ctx.Err()
	}
	return n, err
}

func (m *mute) Results(ctx context.Context, h compute.Handle) (io.ReadCloser, error) {
	if m.call == "results" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return m.notifier.Results(ctx, h)
}

// lonely is a harness in which a job of ada's is at the agent a1, which goes away, and her next job waits for the slot.
type lonely struct {
	*harness
	f           *fake
	x           compute.Executor
	first, next job.ID
}

// agentGone names a state in which an agent goes away, and how it does.
type agentGone struct {
	name  string
	state lifecycle.State // of the job when it is cancelled
	left  bool            // an agent that dials in: it is not known any more; else it does not answer
	call  string          // that gets no answer before that
	later time.Duration   // after which the job is cancelled
}

func agentsGone() []agentGone {
	return []agentGone{
		{name: "silence is not noticed yet", state: compute.Running},
		{name: "silent", state: compute.Unknown},
		{name: "silent for longer than the patience", state: compute.Unknown, later: 15 * time.Second},
		{name: "dialled in and left", state: compute.Unknown, left: true},
		{name: "on its way", state: compute.Processing, call: "submit", later: time.Second},
		{name: "on its way, dialled in and left", state: compute.Processing, call: "submit", left: true,
			later: time.Second},
		{name: "results on their way", state: compute.Retrieving, call: "results", later: time.Second},
		{name: "results on their way, dialled in and left", state: compute.Retrieving, call: "results", left: true, later: time.Second},
	}
}

func newLonely(t *testing.T, c agentGone) *lonely {
	o := quick(t)
	o.Killing, o.Lost, o.Recheck = 10*time.Second, time.Hour, time.Second
	o.Services[0].RunsPerUser = 1
	l := &lonely{f: newFake()}
	l.f.auto = false
	l.x = notifier{l.f}
	if c.call != "" {
		l.x = &mute{notifier{l.f}, c.call}
	}
	l.harness = newHarness(t, o, one(l.x))
	l.first = l.upload("ada", hello).ID
	if c.state == compute.Processing {
		l.until(l.first, compute.Processing)
		eventually(t, "it has arrived", func() bool { return l.standing() == compute.Works })
	} else {
		l.until(l.first, compute.Running)
	}
	if c.state == compute.Retrieving {
		l.f.finish(l.first, nil)
		l.until(l.first, compute.Retrieving)
	}
	l.next = l.upload("ada", hello).ID
	if c.left {
		l.app.Leave("a1")
	} else {
		l.f.mu.Lock()
		l.f.down = errors.New("no route to host")
		l.f.mu.Unlock()
	}
	if c.state != compute.Running {
		l.until(l.first, c.state)
	}
	if c.later == time.Second && !c.left { // the server notices that it does not answer
		eventually(t, "the agent is known not to answer", func() bool { return !l.app.Agents()[0].Up })
	}
	time.Sleep(c.later)
	other := newFake()
	other.auto = false
	l.app.Join("a2", notifier{other}) // the slot is all that the next job waits for
	return l
}

// standing is how the payload of the first job stands at the agent; empty: it has none.
func (l *lonely) standing() compute.Standing {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	for _, p := range l.f.payloads {
		if p.parcel.Job == l.first {
			return p.notice.Standing
		}
	}
	return ""
}

// back lets the agent come back.
func (l *lonely) back(c agentGone) {
	if c.left {
		l.app.Join("a1", notifier{l.f})
		return
	}
	l.f.mu.Lock()
	l.f.down = nil
	l.f.mu.Unlock()
}

// TestCancelWithoutAgent: a job whose agent does not answer, or is not there, can be cancelled at once in every state.
// Its slot is free as soon as the patience with the agent is over, and it ends as cancelled and reports what is not
// known. When the agent comes back it is requested to end what it still runs, and its results are not taken. In the
// control no one cancels: the job keeps its slot, and goes on when the agent comes back.
func TestCancelWithoutAgent(t *testing.T) {
	for _, c := range agentsGone() {
		runInBubble(t, c.name, func(t *testing.T) {
			l := newLonely(t, c)
			asked := time.Now()
			j, err := l.app.Cancel(t.Context(), l.first, compute.Request{By: lifecycle.Owner, Actor: "ada",
				Note: "not needed"})
			if err != nil || j.State != compute.Killing || time.Since(asked) > 0 ||
				!strings.Contains(j.Message, "cancellation requested: the agent a1") {
				t.Fatalf("%s after %v: %q, %v", j.State, time.Since(asked), j.Message, err)
			}
			if c.later < 10*time.Second {
				time.Sleep(time.Second)
				if codes, text := l.whyOf(l.first); codes != "agent-silent" ||
					!strings.Contains(text, "ends as cancelled") || !strings.Contains(text,
					"nothing: it ends by itself") {
					t.Errorf("why: %s: %s", codes, text)
				}
				if next, _ := l.store.Get(t.Context(), l.next); next.State != compute.Queued {
					t.Errorf("before the patience is over the next job is %s", next.State)
				}
			}
			want := "the agent may still be running it"
			if c.state == compute.Retrieving {
				want = "it had ended there, and its output was not fetched"
			}
			j = l.until(l.first, compute.Killed)
			if j.Outcome != lifecycle.Cancelled || j.Cause != compute.CauseKilled ||
				!strings.Contains(j.Message, want) {
				t.Errorf("%s, %s: %s", j.Outcome, j.Cause, j.Message)
			}
			if took, most := time.Since(asked), 11*time.Second; took > most ||
				c.later > 10*time.Second && took > time.Second {
				t.Errorf("it ended after %v", took)
			}
			l.until(l.next, compute.Running)
			time.Sleep(2 * time.Minute)
			l.back(c)
			eventually(t, "the agent is requested to end and forget it", func() bool {
				l.f.mu.Lock()
				defer l.f.mu.Unlock()
				return len(l.f.forgot) == 1 && l.f.forgot[0].Job == l.first
			})
			if got := l.standing(); got != compute.Ended {
				t.Errorf("its payload is %s", got)
			}
			if j, err := l.store.Get(t.Context(), l.first); err != nil || j.State != compute.Killed {
				t.Errorf("afterwards it is %s, %v", j.State, err)
			} else if d, err := compute.DataOf(&j); err != nil || d.Results != nil {
				t.Errorf("its results were taken: %+v, %v", d.Results, err)
			}
		})
		runInBubble(t, "control/"+c.name, func(t *testing.T) {
			l := newLonely(t, c)
			time.Sleep(2 * time.Minute)
			j, _ := l.store.Get(t.Context(), l.first)
			next, _ := l.store.Get(t.Context(), l.next)
			if !compute.Slot(j.State) || next.State != compute.Queued {
				t.Errorf("it is %s, and the next one %s", j.State, next.State)
			}
		})
	}
}

// TestCancelInPassing: a job whose agent answers is waited for while its results are fetched, and the refusal reports
// what can be done. Another job is not found.
func TestCancelInPassing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake()
		f.auto = false
		o := quick(t)
		o.Answer = 20 * time.Millisecond
		w := newHarness(t, o, one(&mute{notifier{f}, "results"}))
		j := w.upload("ada", hello)
		w.until(j.ID, compute.Running)
		f.finish(j.ID, nil)
		w.until(j.ID, compute.Retrieving)
		got, err := w.app.Cancel(t.Context(), j.ID, compute.Request{By: lifecycle.Owner})
		if job.KindOf(err) != job.Refused || got.State != compute.Retrieving ||
			!strings.Contains(err.Error(), "wait until they are here") {
			t.Errorf("%s: %v", got.State, err)
		}
		if _, err := w.app.Cancel(t.Context(), "cmp_nowhere", compute.Request{By: lifecycle.Owner}); job.KindOf(err) !=
			job.NotFound {
			t.Errorf("no such job: %v", err)
		}
	})
}

// TestCancelOnItsWay: a parcel that does not get through to an agent that answers does not keep a person from
// cancelling the job.
func TestCancelOnItsWay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake()
		f.auto = false
		o := quick(t)
		w := newHarness(t, o, one(&mute{notifier{f}, "submit"}))
		j := w.upload("ada", hello)
		w.until(j.ID, compute.Processing)
		if got, err := w.app.Cancel(t.Context(), j.ID, compute.Request{By: lifecycle.Owner}); err != nil ||
			got.State != compute.Killing {
			t.Fatalf("%s: %v", got.State, err)
		}
		if got := w.until(j.ID, compute.Killed); got.Cause != compute.CauseKilled ||
			strings.Contains(got.Message, "may still be running") {
			t.Errorf("%s: %s", got.Cause, got.Message)
		}
		if a := w.app.Agents()[0]; a.Reserved != 0 {
			t.Errorf("%d slots are reserved", a.Reserved)
		}
	})
}
