package archive

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/notify"
	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/edge/mail"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// mailbox is a mail server in memory.
type mailbox struct {
	mu     sync.Mutex // guards the rest
	got    []mail.Message
	refuse func(to string) error           // may be nil
	crash  func(accept func() error) error // is a point at which the process can crash; may be nil
}

func (b *mailbox) Send(_ context.Context, m mail.Message) error {
	if err := m.Validate(); err != nil {
		return &mail.Error{Err: err}
	}
	accept := func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.refuse != nil {
			if err := b.refuse(m.To[0]); err != nil {
				return err
			}
		}
		b.got = append(b.got, m)
		return nil
	}
	if b.crash == nil {
		return accept()
	}
	if err := b.crash(accept); err != nil {
		return &mail.Error{Temp: true, Err: err}
	}
	return nil
}

// all gives the mails that arrived, the first first.
func (b *mailbox) all() []mail.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.got)
}

// mailed changes options to those with a mail server.
func (b *mailbox) mailed(o *Options) {
	o.Mail = &notify.Mail{
		Sender: b, From: "stagepost@example.org", Host: "example.org", Link: "https://archive.example.org",
	}
}

// mails lists the mails of a job in the outbox.
func (h *harness) mails(id job.ID) (all []job.Message) {
	h.t.Helper()
	messages, err := job.MessagesOf(h.t.Context(), h.store, id)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, m := range messages {
		if m.Topic == notify.MailTopic {
			all = append(all, m)
		}
	}
	return all
}

func (h *harness) act(id job.ID, event lifecycle.Event, by lifecycle.Actor) {
	h.t.Helper()
	_, err := h.engine.Do(h.t.Context(), operator.Act{
		Job: id, Event: event, By: by, Actor: "ben", Note: "wrong course", Confirm: true,
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// TestMailOfEachEnd: the receivers that the settings name get one mail about the end of a job, whatever it is, with
// what happened and the commands that show and verify it.
func TestMailOfEachEnd(t *testing.T) {
	strict := Settings{Notify: []string{"Ann <ann@example.org>", "ben@example.org"}, ActivityOptional: new(bool),
		Deadline: "2h", Attempts: 100}
	for _, c := range []struct {
		name  string
		state lifecycle.State
		make  func(*harness, *fake, job.ID)
		want  []string
	}{
		{"completed", Completed, func(*harness, *fake, job.ID) {}, []string{
			"Archive complete: Algebra (job 1)", "stagepost archive show JOB --server https://archive.example.org\n",
			"stagepost archive retrieve JOB --out JOB --server ", "stagepost archive verify JOB\n",
			"Activities: 1 archived, 1 left out", "Kept:       indefinitely", "Package:    archive-",
		}},
		{"failed", Failure, func(_ *harness, src *fake, _ job.ID) {
			src.mu.Lock()
			defer src.mu.Unlock()
			src.failures["1/item-0"] = &source.Error{Op: "fetch", Err: errors.New("the attempt is locked")}
		}, []string{
			"Archive failed: Algebra (job 1)", "the attempt is locked", "Nothing of it is kept", "stagepost show JOB ",
			"stagepost logs JOB ",
		}},
		{"timed out", Timeout, func(_ *harness, src *fake, _ job.ID) {
			src.mu.Lock()
			defer src.mu.Unlock()
			src.failures["1/item-0"] = &source.Error{Op: "fetch", Err: errBusy, Transient: true}
		}, []string{
			"Archive timed out: Algebra (job 1)", "not complete at the deadline", "Reason:     the job's deadline ",
		}},
		{"cancelled", Cancelled, func(h *harness, _ *fake, id job.ID) {
			h.act(id, Cancel, lifecycle.Operator)
		}, []string{
			"Archive cancelled: course 5 (job 1)", "cancelled by ben: wrong course",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var box mailbox
			src := newFake(1, 1)
			bubble(t, src, box.mailed, func(h *harness) {
				j, err := h.Submit(h.t.Context(), Request{Source: "campus", Course: "5", Settings: strict},
					Ordered{Due: h.engine.Clock().Now().Add(time.Minute)})
				if err != nil {
					t.Fatal(err)
				}
				c.make(h, src, j.ID)
				if end := h.end(j.ID); end.State != c.state {
					t.Fatalf("it is %s: %s", end.State, h.events(j.ID))
				}
				synctest.Wait()
				checkMails(t, h, &box, j.ID, c.want)
			})
		})
	}
}

// checkMails requires two mails with the texts, each once.
func checkMails(t *testing.T, h *harness, box *mailbox, id job.ID, want []string) {
	t.Helper()
	got := box.all()
	if n := len(h.mails(id)); len(got) != 2 || n != 2 || got[0].MessageID == got[1].MessageID {
		t.Fatalf("%d mails arrived, %d in the outbox: %+v", len(got), n, got)
	}
	for i := range got {
		text := got[i].Subject + "\n" + got[i].Text
		for _, one := range want {
			if one = strings.ReplaceAll(one, "JOB", string(id)); !strings.Contains(text, one) {
				t.Errorf("no %q in\n%s", one, text)
			}
		}
	}
	for _, m := range h.mails(id) {
		if strings.Contains(m.Key, "@") || m.Settled != job.Delivered {
			t.Errorf("%s is %q", m.Key, m.Settled)
		}
	}
}

// TestReasonStays: the record of a job that failed or was cancelled has the reason, after its cleanup too. The control
// is a job that completed.
func TestReasonStays(t *testing.T) {
	src := newFake(1, 1)
	bubble(t, src, notified(t), func(h *harness) {
		if j := h.end(h.submit(Request{}).ID); j.Message != "" {
			t.Errorf("control: %q", j.Message)
		}
		src.mu.Lock()
		src.failures["1/item-0"] = &source.Error{Op: "fetch", Err: errors.New("gone")}
		src.mu.Unlock()
		j := h.end(h.submit(Request{Settings: Settings{ActivityOptional: new(bool)}}).ID)
		if j.State != Failure || j.Cause == "" || !strings.Contains(j.Message, "gone") {
			t.Errorf("%s: %q %q", j.State, j.Cause, j.Message)
		}
		messages, err := job.MessagesOf(h.t.Context(), h.store, j.ID)
		if err != nil || !slices.ContainsFunc(messages, func(m job.Message) bool {
			var p struct{ Body struct{ Data notify.Job } }
			return json.Unmarshal(m.Body, &p) == nil && p.Body.Data.State == Failure &&
				strings.Contains(p.Body.Data.Message, "gone")
		}) {
			t.Errorf("no notification has the reason: %v", err)
		}
	})
}

// TestMailOfDeletion: a deletion is mailed as an answer to the mail about the end, with who wanted it; that of a job
// without an archive states that there was none.
func TestMailOfDeletion(t *testing.T) {
	var box mailbox
	bubble(t, newFake(1, 1), box.mailed, func(h *harness) {
		to := Settings{Notify: []string{"ann@example.org"}, Keep: "1h"}
		id := h.end(h.submit(Request{Settings: to}).ID).ID
		time.Sleep(2 * time.Hour)
		if err := h.Expire(h.t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		a, err := h.options.Catalog.Archive(h.t.Context(), string(id))
		if err != nil || a.Outcome != catalog.Deleted {
			t.Fatalf("%s, %v", a.Outcome, err)
		}
		got := box.all()
		if len(got) != 2 || got[1].InReplyTo != got[0].MessageID || got[0].MessageID == got[1].MessageID ||
			!strings.Contains(got[1].Subject, "Archive deleted: Algebra") ||
			!strings.Contains(got[1].Text, "its retention time has ended") {
			t.Fatalf("got %+v", got)
		}
		id = h.submit(Request{Settings: to}).ID
		h.act(id, Cancel, lifecycle.Operator)
		h.end(id)
		synctest.Wait() // mails of one delivery have no order
		h.act(id, Delete, lifecycle.Operator)
		synctest.Wait()
		if got = box.all(); len(got) != 4 || !strings.Contains(got[3].Text, "There was no archive") {
			t.Errorf("got %+v", got)
		}
	})
}

// TestMailServerRefuses: what is refused for now is tried again with the pauses of webhooks under one Message-ID, what
// is refused permanently is abandoned, and neither concerns the job or the other receivers.
func TestMailServerRefuses(t *testing.T) {
	busy := &mail.Error{Code: 451, Temp: true, Err: errors.New("451 later")}
	unknown := &mail.Error{Code: 550, Err: errors.New("550 no such user")}
	for _, c := range []struct {
		name    string
		err     error
		times   int
		settled job.Settled
		tries   int
		wait    time.Duration // and the last attempt is in its last fifth
	}{
		{"control: accepts", nil, 0, job.Delivered, 1, 0},
		{"twice for now", busy, 2, job.Delivered, 3, 6 * time.Minute},
		{"always for now", busy, 99, job.Abandoned, 8, 36 * time.Hour},
		{"permanently", unknown, 99, job.Abandoned, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			box, refused := mailbox{}, 0
			box.refuse = func(to string) error {
				if refused++; to != "odd@example.org" || refused > c.times {
					return nil
				}
				return c.err
			}
			bubble(t, newFake(1, 1), box.mailed, func(h *harness) {
				j := h.end(h.submit(Request{Settings: Settings{Notify: []string{"odd@example.org"}}}).ID)
				ended := time.Now()
				if j.State != Completed || ended.Sub(j.Created) > time.Minute {
					t.Errorf("the mail delays the job: %s after %s", j.State, ended.Sub(j.Created))
				}
				time.Sleep(c.wait)
				synctest.Wait()
				m := h.mails(j.ID)[0]
				if m.Settled != c.settled || m.Attempts != c.tries || (c.settled == job.Abandoned) != (m.Error != "") {
					t.Errorf("%q after %d attempts: %s", m.Settled, m.Attempts, m.Error)
				}
				if last := m.Tried[len(m.Tried)-1].At; last.Sub(ended) < c.wait/5*4 {
					t.Errorf("the last attempt was after %s", last.Sub(ended))
				}
			})
		})
	}
}

// TestReceivers: addresses that no mail can be sent to are refused with the request; the control is accepted.
func TestReceivers(t *testing.T) {
	many := slices.Repeat([]string{"a@example.org"}, notify.MostReceivers+1)
	for _, c := range []struct {
		to []string
		ok bool
	}{
		{[]string{"Ann Lee <ann@example.org>"}, true}, {many[1:], true}, {many, false}, {[]string{"ann"}, false},
		{[]string{"a@example.org\r\nBcc: b@example.org"}, false},
	} {
		_, err := settings.Preset{}.Apply(Settings{Notify: c.to})
		if (err == nil) != c.ok || err != nil && job.KindOf(err) != job.Invalid {
			t.Errorf("%.60q: %v", c.to, err)
		}
	}
}
