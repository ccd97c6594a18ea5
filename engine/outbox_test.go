package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// postbox records what is delivered, and returns the errors that it is given.
type postbox struct {
	mu     sync.Mutex
	names  []string    // mu guards it
	times  []time.Time // mu guards it
	answer func(nth int) error
}

func (p *postbox) deliver(_ context.Context, m job.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names, p.times = append(p.names, m.Key), append(p.times, time.Now())
	if p.answer == nil {
		return nil
	}
	return p.answer(len(p.names))
}

// keys returns the keys delivered so far.
func (p *postbox) keys() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.names)
}

// at returns the times of the deliveries.
func (p *postbox) at() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.times)
}

func (p *postbox) options() engine.Options {
	return engine.Options{Deliver: map[string]engine.Deliver{"mail": p.deliver}}
}

// mailing sends one message from Riding, then does the rest.
func mailing(rest engine.Step) engine.Work {
	return letters(map[lc.State]engine.Step{"Riding": func(ctx context.Context, r *engine.Run) error {
		if err := r.Send("mail", r.Key()+"/1", "it is on the road"); err != nil {
			return err
		}
		return rest(ctx, r)
	}})
}

func (w *harness) messages(id job.ID) []job.Message {
	w.t.Helper()
	messages, err := job.MessagesOf(w.t.Context(), w.store, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return messages
}

// TestMessageGoesWithTheCommit checks that a message is delivered right after its commit, not before, and not at all if
// the commit fails.
func TestMessageGoesWithTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &postbox{}
		w := start(t, mem.New(), p.options(), mailing(takes(time.Minute)))
		defer w.stop()
		j := w.post(engine.Order{})
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if len(p.keys()) != 0 || len(w.messages(j.ID)) != 0 {
			t.Error("it went out before the commit")
		}
		j = w.end(j.ID)
		synctest.Wait()
		if len(p.keys()) != 1 || !p.at()[0].Equal(j.Entered) || p.keys()[0] != string(j.ID)+"/Riding/1" {
			t.Errorf("got %v at %v", p.keys(), p.at())
		}
		if m := w.messages(j.ID); len(m) != 1 || m[0].Settled != job.Delivered || m[0].Attempts != 1 {
			t.Errorf("got %+v", m)
		}
		stopped := w.post(engine.Order{})
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if got := w.get(stopped.ID); got.State != "Riding" {
			t.Fatalf("got %s", got.State)
		}
		if _, err := w.Do(t.Context(), operator.Act{Job: stopped.ID, Event: "fail",
			By: lc.Operator, Actor: "ann"}); job.KindOf(err) != job.Refused {
			t.Fatalf("got %v", err)
		}
	})
}

// TestMessageOfAFencedAttemptStaysHere checks that an attempt whose claim is over sends no message.
func TestMessageOfAFencedAttemptStaysHere(t *testing.T) {
	for _, c := range []struct {
		name string
		stop bool
		want int
	}{{"stopped", true, 0}, {"control: not stopped", false, 1}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &postbox{}
				work := letters(map[lc.State]engine.Step{"Sorting": func(ctx context.Context, r *engine.Run) error {
					if err := r.Send("mail", r.Key()+"/1", "sorted"); err != nil {
						return err
					}
					return deaf(time.Minute)(ctx, r)
				}})
				w := start(t, mem.New(), p.options(), work)
				defer w.stop()
				j := w.post(engine.Order{})
				time.Sleep(time.Second)
				synctest.Wait()
				if c.stop {
					if _, err := w.Do(t.Context(), operator.Act{Job: j.ID, Event: "stop", By: lc.Operator,
						Actor: "ann"}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if len(p.keys()) != c.want || len(w.messages(j.ID)) != c.want {
					t.Errorf("delivered %v, stored %+v", p.keys(), w.messages(j.ID))
				}
			})
		})
	}
}

// TestMessageIsOneThoughTheStepRanTwice checks that the key names the work, and that the store keeps one message for a
// key.
func TestMessageIsOneThoughTheStepRanTwice(t *testing.T) {
	for _, c := range []struct {
		name string
		key  func(*engine.Run) string
		want int
	}{
		{"key of the work", (*engine.Run).Key, 1},
		{"control: key of the attempt", (*engine.Run).Fence, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &postbox{}
				runs := 0
				work := letters(map[lc.State]engine.Step{"Riding": func(ctx context.Context, r *engine.Run) error {
					runs++
					if err := r.Send("mail", c.key(r), "on the road"); err != nil {
						return err
					}
					if err := r.Save(ctx); err != nil || runs > 1 {
						return err
					}
					return errBroken
				}})
				w := start(t, mem.New(), p.options(), work)
				defer w.stop()
				j := w.end(w.post(engine.Order{}).ID)
				time.Sleep(time.Minute)
				synctest.Wait()
				if runs != 2 || len(p.keys()) != c.want || len(w.messages(j.ID)) != c.want {
					t.Errorf("%d runs, delivered %v", runs, p.keys())
				}
			})
		})
	}
}

// TestMessageIsTriedAgain checks that the pauses grow, and that a message is abandoned after Attempts or after an error
// that is not temporary.
func TestMessageIsTriedAgain(t *testing.T) {
	gone := job.Errorf(job.Invalid, "mail", "", "there is no such town")
	for _, c := range []struct {
		name     string
		answer   func(int) error
		tries    int
		settled  job.Settled
		says     string
		attempts int
	}{
		{"passes", failing(3, errBroken), 4, job.Delivered, "", 0},
		{"never passes", failing(99, errBroken), 8, job.Abandoned, "the axle broke", 0},
		{"never passes, three allowed", failing(99, errBroken), 3, job.Abandoned, "the axle broke", 3},
		{"not temporary", failing(99, gone), 1, job.Abandoned, "no such town", 0},
		{"panics", func(int) error { panic("no stamps") }, 8, job.Abandoned, "panicked: no stamps", 0},
		{"panics once", func(n int) error {
			if n == 1 {
				panic("no stamps")
			}
			return nil
		}, 2, job.Delivered, "", 0},
		{"control: passes at once", nil, 1, job.Delivered, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &postbox{answer: c.answer}
				o := p.options()
				o.Attempts = c.attempts
				w := start(t, mem.New(), o, mailing(takes(0)))
				defer w.stop()
				j := w.end(w.post(engine.Order{}).ID)
				time.Sleep(time.Hour)
				synctest.Wait()
				m := w.messages(j.ID)
				if len(m) != 1 || m[0].Settled != c.settled || m[0].Attempts != c.tries ||
					!strings.Contains(m[0].Error, c.says) || len(p.keys()) != c.tries {
					t.Fatalf("got %+v after %d tries", m, len(p.keys()))
				}
				for i, pause := 1, 5*time.Second; i < len(p.at()); i, pause = i+1, min(2*pause, time.Hour) {
					if got := p.at()[i].Sub(p.at()[i-1]); got < pause*4/5 || got > pause*6/5+time.Second {
						t.Errorf("pause %d was %s, want %s and a fifth", i, got, pause)
					}
				}
				for _, k := range p.keys() {
					if k != p.keys()[0] {
						t.Errorf("the key changed: %v", p.keys())
					}
				}
			})
		})
	}
}

func failing(n int, err error) func(int) error {
	return func(nth int) error {
		if nth <= n {
			return err
		}
		return nil
	}
}

// TestMessageWithoutADelivery checks that a message whose topic has no function is abandoned with an error.
func TestMessageWithoutADelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := (&postbox{}).options()
		o.Deliver["pigeon"], o.Deliver["mail"] = o.Deliver["mail"], nil
		w := start(t, mem.New(), o, mailing(takes(0)))
		defer w.stop()
		j := w.end(w.post(engine.Order{}).ID)
		time.Sleep(time.Hour)
		synctest.Wait()
		if m := w.messages(j.ID); len(m) != 1 || m[0].Settled != job.Abandoned ||
			m[0].Error != `this server does not deliver "mail"` {
			t.Errorf("got %+v", m)
		}
	})
}

// TestMessageAfterACrash checks that a message whose engine crashes between the delivery and its commit is delivered
// again by another engine under its key.
func TestMessageAfterACrash(t *testing.T) {
	for _, c := range []struct {
		name string
		f    fate
		want int
	}{{"before settling", refused, 2}, {"control: after settling", unheard, 1}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := mem.New()
				p := &postbox{}
				o := p.options()
				o.Name = "first"
				first := startKillable(t, store, o, mailing(takes(0)))
				first.line.decide(func(op string, _ int) fate {
					if op == "Settle" {
						return c.f
					}
					return answered
				})
				id := first.end(first.post(engine.Order{}).ID).ID
				synctest.Wait()
				if len(p.keys()) != 1 {
					t.Fatalf("delivered %v", p.keys())
				}
				first.kill()
				o.Name = "second"
				second := start(t, store, o, mailing(takes(0)))
				defer second.stop()
				died := time.Now()
				time.Sleep(time.Hour)
				synctest.Wait()
				if len(p.keys()) != c.want || p.keys()[0] != p.keys()[len(p.keys())-1] {
					t.Errorf("delivered %v", p.keys())
				}
				if c.want == 2 && p.at()[1].Sub(died) > 2*time.Minute+time.Second {
					t.Errorf("the second time after %s", p.at()[1].Sub(died))
				}
				if m := second.messages(id); len(m) != 1 || m[0].Settled != job.Delivered {
					t.Errorf("got %+v", m)
				}
			})
		})
	}
}

// TestMessageDuringAStop checks that a delivery that the stop of the engine interrupts does not count as failed and is
// tried again.
func TestMessageDuringAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		entered := make(chan struct{})
		w := start(t, store, engine.Options{Name: "first", Attempts: 1, Deliver: map[string]engine.Deliver{
			"mail": func(ctx context.Context, _ job.Message) error {
				close(entered)
				<-ctx.Done()
				return fmt.Errorf("mail: %w", ctx.Err())
			},
		}}, mailing(takes(0)))
		id := w.end(w.post(engine.Order{}).ID).ID
		<-entered
		w.stop()
		if m := w.messages(id); len(m) != 1 || m[0].Settled != job.Pending || m[0].Error == "" {
			t.Fatalf("got %+v", m)
		}
		p := &postbox{}
		w2 := start(t, store, p.options(), mailing(takes(0)))
		defer w2.stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		if m := w2.messages(id); len(p.keys()) != 1 || m[0].Settled != job.Delivered {
			t.Errorf("got %v, %+v", p.keys(), m)
		}
	})
}

// TestOutboxSurvivesAFailingStore checks that messages are delivered after the store failed to return them.
func TestOutboxSurvivesAFailingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &postbox{answer: failing(1, errors.New("full"))}
		m := startKillable(t, mem.New(), p.options(), mailing(takes(0)))
		defer m.stop()
		injected := 0
		m.line.decide(func(op string, nth int) fate {
			// each sweep takes twice, for the topic and for the others: it is always the same one that fails
			if op == "Take" && nth%2 == 0 && nth <= 200 || op == "Settle" && nth == 1 {
				injected++
				return fate(1 + nth%2)
			}
			return answered
		})
		j := m.end(m.post(engine.Order{}).ID)
		time.Sleep(time.Hour)
		synctest.Wait()
		m.line.decide(nil)
		if got := m.messages(j.ID); len(got) != 1 || got[0].Settled != job.Delivered || injected == 0 {
			t.Errorf("got %+v after %d faults", got, injected)
		}
	})
}

// TestSlowTopicDelaysNoOther checks that forty messages to a receiver that hangs do not delay a mail. In the control
// both have one topic.
func TestSlowTopicDelaysNoOther(t *testing.T) {
	for _, c := range []struct{ name, slow, quick string }{{"two topics", "webhook", "mail"},
		{"control: one topic", "mail", "mail"}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				quick := make(chan time.Time, 1)
				hang := func(ctx context.Context, m job.Message) error {
					if strings.HasSuffix(m.Key, "/quick") {
						quick <- time.Now()
						return nil
					}
					<-ctx.Done()
					return ctx.Err()
				}
				work := letters(map[lc.State]engine.Step{"Riding": func(_ context.Context, r *engine.Run) error {
					for i := range 40 {
						if err := r.Send(c.slow, fmt.Sprintf("%s/%d", r.Key(), i), i); err != nil {
							return err
						}
					}
					return r.Send(c.quick, r.Key()+"/quick", "now")
				}})
				w := start(t, mem.New(), engine.Options{Deliver: map[string]engine.Deliver{"mail": hang,
					"webhook": hang}}, work)
				defer w.stop()
				began := time.Now()
				w.post(engine.Order{})
				if at := <-quick; (at.Sub(began) < time.Second) != (c.slow != c.quick) {
					t.Errorf("the quick one went out after %s", at.Sub(began))
				}
			})
		})
	}
}

// TestReplay checks that an abandoned message is delivered again when a person requests it with a reason.
func TestReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mended atomic.Bool
		p := &postbox{answer: func(int) error {
			if !mended.Load() {
				return engine.Fail("mail", errBroken)
			}
			return nil
		}}
		w := start(t, mem.New(), p.options(), mailing(takes(0)))
		defer w.stop()
		j := w.end(w.post(engine.Order{}).ID)
		synctest.Wait()
		m := w.messages(j.ID)
		if len(m) != 1 || m[0].Settled != job.Abandoned {
			t.Fatalf("got %+v", m)
		}
		for _, bad := range []struct {
			keys []string
			note string
			want job.ErrorKind
		}{{nil, "x", job.Invalid}, {[]string{m[0].Key}, "", job.Invalid}, {[]string{m[0].Key, "none"}, "x",
			job.NotFound}} {
			if err := w.Operator().Replay(t.Context(), bad.keys, "ann", bad.note); job.KindOf(err) != bad.want {
				t.Errorf("%v: got %v", bad.keys, err)
			}
		}
		mended.Store(true)
		if err := w.Operator().Replay(t.Context(), []string{m[0].Key}, "ann", "the coach runs again"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if m := w.messages(j.ID); m[0].Settled != job.Delivered || len(p.keys()) != 2 || p.keys()[0] != p.keys()[1] {
			t.Errorf("got %s after %v", m[0].Settled, p.keys())
		}
	})
}
