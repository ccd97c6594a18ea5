package archive

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive/notify"
	"github.com/stagepost/stagepost/edge/webhook"
	"github.com/stagepost/stagepost/edge/webhook/webhooktest"
	"github.com/stagepost/stagepost/engine/hooklog"
	"github.com/stagepost/stagepost/job"
)

// receiver is a receiver of notifications in memory.
type receiver struct {
	mu     sync.Mutex // guards the rest
	status int
	got    []string // webhook-id and event of what it accepted
}

func (r *receiver) RoundTrip(q *http.Request) (*http.Response, error) {
	text, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, err
	}
	if err := webhooktest.Check(q.Header, text); err != nil {
		return nil, err
	}
	var e webhook.Event
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status < 300 {
		r.got = append(r.got, q.Header.Get("Webhook-Id")+" "+strings.TrimPrefix(e.Type, "io.github.stagepost.archive."))
	}
	return &http.Response{StatusCode: r.status, Body: http.NoBody, Request: q}, nil
}

// set changes how it answers, and gives what it accepted.
func (r *receiver) set(status int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
	return slices.Clone(r.got)
}

// TestEventOfDeletion: the deletion of an archive is one notification archive_job_deleted, with the state before. The
// control is the archive before it.
func TestEventOfDeletion(t *testing.T) {
	bubble(t, newFake(1, 1), notified(t), func(h *harness) {
		id := h.end(h.submit(Request{Settings: Settings{Keep: "1h"}}).ID).ID
		if n := count(h.notices(id), "archive_job_deleted Deleted"); n != 0 {
			t.Errorf("control: %d", n)
		}
		time.Sleep(2 * time.Hour)
		for range 2 {
			if err := h.Expire(h.t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if n := count(h.notices(id), "archive_job_deleted Deleted"); n != 1 {
			t.Errorf("%d in %v", n, h.notices(id))
		}
		all, err := h.Deliveries(h.t.Context(), hooklog.Query{Job: id, Limit: 1})
		if err != nil || len(all) != 1 || all[0].Type != notify.JobDeleted || all[0].Status != hooklog.Delivered {
			t.Fatalf("%+v, %v", all, err)
		}
		one, err := h.Delivery(h.t.Context(), all[0].Key)
		if err != nil || !strings.Contains(string(one.Payload), `"before":"Completed","state":"Deleted"`) {
			t.Errorf("%s, %v", one.Payload, err)
		}
	})
}

// TestReplay: notifications that a receiver refused permanently are abandoned, and sent again under their ids when a
// person asks for it; those that are delivered can be sent again by their keys. Mails and unknown keys are refused.
func TestReplay(t *testing.T) {
	lms, box := &receiver{status: http.StatusGone}, &mailbox{}
	hooks := notified(t, notify.JobCompleted)
	bubble(t, newFake(1, 1), func(o *Options) { hooks(o); box.mailed(o); o.Transport = lms }, func(h *harness) {
		ctx := h.t.Context()
		j := h.end(h.submit(Request{Settings: Settings{Notify: []string{"ann@example.org"}}}).ID)
		synctest.Wait()
		failed, err := h.Deliveries(ctx, hooklog.Query{Status: hooklog.Abandoned})
		if err != nil || len(failed) != 1 || failed[0].Hook != "lms" || failed[0].Host != "lms.example" {
			t.Fatalf("%+v, %v", failed, err)
		}
		for _, c := range []struct {
			r    api.ReplayHooks
			want job.ErrorKind
		}{
			{api.ReplayHooks{Keys: []string{failed[0].Key}}, job.Invalid},
			{api.ReplayHooks{Keys: []string{failed[0].Key + "x"}, Note: "back"}, job.NotFound},
			{api.ReplayHooks{Keys: []string{h.mails(j.ID)[0].Key}, Note: "back"}, job.NotFound},
		} {
			if _, err := h.Replay(ctx, c.r); job.KindOf(err) != c.want {
				t.Errorf("%+v: %v", c.r, err)
			}
		}
		if got := lms.set(http.StatusNoContent); len(got) != 0 {
			t.Errorf("control: %v", got)
		}
		keys, err := h.Replay(ctx, api.ReplayHooks{Failed: true, Note: "back", Actor: "ann"})
		if err != nil || len(keys) != 1 {
			t.Fatalf("%v, %v", keys, err)
		}
		synctest.Wait()
		if _, err = h.Replay(ctx, api.ReplayHooks{Keys: keys, Note: "lost", Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want := failed[0].Key + " " + notify.JobCompleted
		if got := lms.set(http.StatusNoContent); !slices.Equal(got, []string{want, want}) {
			t.Errorf("got %v", got)
		}
		if len(box.all()) != 1 {
			t.Errorf("%d mails", len(box.all()))
		}
	})
}

// TestPing: a ping reaches each webhook at once, and states why one did not accept it.
func TestPing(t *testing.T) {
	lms := &receiver{status: http.StatusNoContent}
	hooks := notified(t)
	bubble(t, newFake(1, 1), func(o *Options) { hooks(o); o.Transport = lms }, func(h *harness) {
		ctx := h.t.Context()
		all, err := h.Ping(ctx, api.PingArchiveHooks{Actor: "ann"})
		if err != nil || len(all) != 1 || all[0].Error != "" || all[0].Hook != "lms" {
			t.Errorf("%+v, %v", all, err)
		}
		if got := lms.set(http.StatusTeapot); len(got) != 1 || !strings.HasSuffix(got[0], " ping") {
			t.Errorf("got %v", got)
		}
		all, err = h.Ping(ctx, api.PingArchiveHooks{Hook: "lms", Actor: "ann"})
		if err != nil || !strings.Contains(all[0].Error, "418") {
			t.Errorf("%+v, %v", all, err)
		}
		if _, err = h.Ping(ctx, api.PingArchiveHooks{Hook: "other", Actor: "ann"}); job.KindOf(err) != job.NotFound {
			t.Errorf("other: %v", err)
		}
	})
}
