package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// receivers answer the messages of a topic: "bad" as it is set, others at once.
type receivers struct {
	mu    sync.Mutex
	bad   func(ctx context.Context) error // mu guards the rest
	tries map[string]int                  // by receiver
	got   map[string][]time.Time          // when messages were delivered, by key
}

func newReceivers(bad func(ctx context.Context) error) *receivers {
	return &receivers{bad: bad, tries: map[string]int{}, got: map[string][]time.Time{}}
}

// hangs answers nothing.
func hangs(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (r *receivers) deliver(ctx context.Context, m job.Message) error {
	to := engine.ReceiverIn("to")(m)
	r.mu.Lock()
	r.tries[to]++
	answer := r.bad
	r.mu.Unlock()
	if to == "bad" && answer != nil {
		if err := answer(ctx); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got[m.Key] = append(r.got[m.Key], time.Now())
	return nil
}

func (r *receivers) set(bad func(ctx context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bad = bad
}

func (r *receivers) triesOf(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tries[name]
}

func (r *receivers) times(key string) []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got[key]
}

// options has the topic "hook". Without apart its receivers are not known to the engine.
func (r *receivers) options(apart bool) engine.Options {
	o := engine.Options{Deliver: map[string]engine.Deliver{"hook": r.deliver}, Attempts: 1000}
	if apart {
		o.Receivers = map[string]engine.Receiver{"hook": engine.ReceiverIn("to")}
	}
	return o
}

// sends is a kind whose spec has how many messages its job sends, and to which receiver.
func sends() engine.Work {
	return letters(map[lc.State]engine.Step{"Riding": func(_ context.Context, r *engine.Run) error {
		var order struct {
			To string
			N  int
		}
		if err := r.Spec(&order); err != nil {
			return err
		}
		for i := range order.N {
			key := fmt.Sprintf("%s/%d", r.Job().ID, i)
			if err := r.Send("hook", key, map[string]string{"to": order.To}); err != nil {
				return err
			}
		}
		return nil
	}})
}

func order(to string, n int) engine.Order {
	return engine.Order{Spec: map[string]any{"To": to, "N": n}}
}

// TestSlowReceiverDelaysNoOther: many messages to a receiver that does not answer delay none to another one for long,
// neither at first nor later, and the receiver is not called for each of them. Once it answers, each message is
// delivered, once. The control: an engine that does not know receivers delivers the message to the other one minutes
// later.
func TestSlowReceiverDelaysNoOther(t *testing.T) {
	for _, apart := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			const n = 300
			r := newReceivers(hangs)
			w := start(t, mem.New(), r.options(apart), sends())
			defer w.stop()
			bad := w.end(w.post(order("bad", n)).ID)
			delay := func() time.Duration {
				good := w.end(w.post(order("good", 1)).ID)
				for began := time.Now(); time.Since(began) < time.Hour; time.Sleep(100 * time.Millisecond) {
					if at := r.times(string(good.ID) + "/0"); len(at) > 0 {
						return at[0].Sub(good.Entered)
					}
				}
				return time.Hour
			}
			if first := delay(); (first < 3*time.Second) != apart {
				t.Errorf("receivers are known: %t; the first message to another one took %s", apart, first)
			}
			if !apart {
				return
			}
			time.Sleep(time.Hour)
			if tries := r.triesOf("bad"); tries > 8+15 {
				t.Errorf("the receiver was called %d times in an hour", tries)
			}
			for range 20 {
				time.Sleep(17 * time.Second)
				if later := delay(); later > 3*time.Second {
					t.Errorf("an hour later a message to another receiver took %s", later)
				}
			}
			tried := 0
			for _, m := range w.messages(bad.ID) {
				if m.Settled != job.Pending {
					t.Errorf("%s is %s", m.Key, m.Settled)
				}
				tried += m.Attempts
			}
			if all := r.triesOf("bad"); tried > all {
				t.Errorf("%d attempts were counted for %d calls", tried, all)
			}
			r.set(nil)
			time.Sleep(2 * time.Hour)
			for i := range n {
				if at := r.times(fmt.Sprintf("%s/%d", bad.ID, i)); len(at) != 1 {
					t.Fatalf("message %d was delivered %d times", i, len(at))
				}
			}
			for _, m := range w.messages(bad.ID) {
				if m.Settled != job.Delivered {
					t.Errorf("%s is %q", m.Key, m.Settled)
				}
			}
		})
	}
}

// TestManyMessagesToOneReceiver: messages to a receiver that answers are delivered without pauses, each with one
// attempt, also if it refuses them at once.
func TestManyMessagesToOneReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := 0
		r := newReceivers(func(context.Context) error {
			time.Sleep(100 * time.Millisecond)
			return nil
		})
		w := start(t, mem.New(), r.options(true), sends())
		defer w.stop()
		bad := w.end(w.post(order("bad", 400)).ID)
		time.Sleep(400 / 8 * 110 * time.Millisecond)
		for _, m := range w.messages(bad.ID) {
			if m.Settled != job.Delivered || m.Attempts != 1 {
				t.Errorf("%s is %q after %d attempts", m.Key, m.Settled, m.Attempts)
			}
		}
		r.set(func(context.Context) error { return errors.New("not today") })
		again := w.end(w.post(order("bad", 100)).ID)
		time.Sleep(time.Second)
		for _, m := range w.messages(again.ID) {
			refused += m.Attempts
		}
		if refused != 100 {
			t.Errorf("%d attempts for 100 messages in a second", refused)
		}
	})
}

// TestSlowReceiverDuringAStop: when the engine stops, messages that wait for a slow receiver are due again at once, and
// their attempts are not counted.
func TestSlowReceiverDuringAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceivers(hangs)
		w := start(t, mem.New(), r.options(true), sends())
		bad := w.end(w.post(order("bad", 30)).ID)
		synctest.Wait() // 8 hang, 22 wait for them
		if r.triesOf("bad") != 8 {
			t.Fatalf("%d messages are being delivered", r.triesOf("bad"))
		}
		w.stop()
		attempts := 0
		for _, m := range w.messages(bad.ID) {
			if attempts += m.Attempts; m.Settled != job.Pending || m.Due.After(time.Now()) {
				t.Errorf("%s is %q, due %s", m.Key, m.Settled, m.Due)
			}
		}
		if attempts != 8 {
			t.Errorf("%d attempts were counted for 8 calls", attempts)
		}
	})
}

// TestDeliveryOutlivesItsLease: a delivery that ignores the end of its context, so that the lease of its message ends,
// is not begun again beside it, and its result settles the message.
func TestDeliveryOutlivesItsLease(t *testing.T) {
	for _, apart := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			r := newReceivers(func(context.Context) error { <-release; return nil })
			w := start(t, mem.New(), r.options(apart), sends())
			bad := w.end(w.post(order("bad", 30)).ID)
			synctest.Wait()
			began := r.triesOf("bad")
			time.Sleep(10 * time.Minute)
			w.end(w.post(order("good", 1)).ID)
			synctest.Wait()
			if again := r.triesOf("bad") - began; again > 30-began {
				t.Errorf("%d deliveries at first, %d more since", began, again)
			}
			close(release)
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			for _, m := range w.messages(bad.ID) {
				if n := len(r.times(m.Key)); n != 1 || m.Settled != job.Delivered {
					t.Errorf("%s is %q after %d deliveries", m.Key, m.Settled, n)
				}
			}
			w.stop()
		})
	}
}
