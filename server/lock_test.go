package server_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
)

// Lockbox has one lock and remembers who broke it.
type Lockbox struct {
	all   []client.Lock
	actor string
	note  string
}

func (l *Lockbox) Locks(context.Context) ([]client.Lock, error) { return l.all, nil }

func (l *Lockbox) BreakLock(_ context.Context, kind, name, actor, note string) (client.Lock, error) {
	for i, one := range l.all {
		if one.Kind == kind && one.Name == name {
			l.all = append(l.all[:i], l.all[i+1:]...)
			l.actor, l.note = actor, note
			return one, nil
		}
	}
	return client.Lock{}, job.Errorf(job.NotFound, "break", "", "the lock %s %s is not held", kind, name)
}

func TestLocks(t *testing.T) {
	lock := client.Lock{
		Kind: "object", Name: "ark:/99999/a b;c?d", Holder: "ing_1", Epoch: 2, State: "held", JobState: "Storing",
		Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Token: 7, Waiting: []job.ID{"ing_2"},
	}
	box := &Lockbox{all: []client.Lock{lock}}
	w := servertest.Open(t, func(o *server.Options) { o.Locks = box }, nil)
	got, err := w.Client.Locks(t.Context())
	if diff := cmp.Diff([]client.Lock{lock}, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	for _, query := range []string{"", "?kind=object", "?kind=object&name=x", "?kind=object&name=x&note=",
		"?kind=object&name=x&note=y&name=z", "?kind=object&name=x&note=y&actor=a%0Ab"} {
		w.Problem(w.Request(http.MethodDelete, "/api/v1/locks"+query, ""), http.StatusBadRequest, job.Invalid)
	}
	if _, err := w.Client.BreakLock(t.Context(), "object", "other", "ann",
		"it hangs"); job.KindOf(err) != job.NotFound {
		t.Errorf("got %v", err)
	}
	was, err := w.Client.BreakLock(t.Context(), lock.Kind, lock.Name, "ann", "it hangs & hangs")
	if diff := cmp.Diff(lock, was); diff != "" || err != nil || box.actor != "ann" || box.note != "it hangs & hangs" {
		t.Errorf("%v %s %+v", err, diff, box)
	}
	if got, err = w.Client.Locks(t.Context()); err != nil || got == nil || len(got) > 0 {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestNoLocks(t *testing.T) {
	w := servertest.Open(t, func(o *server.Options) { o.Locks = nil }, nil)
	w.Problem(w.Request(http.MethodGet, "/api/v1/locks", ""), http.StatusNotFound, job.NotFound)
	broken := w.Request(http.MethodDelete, "/api/v1/locks?kind=object&name=x&note=y", "")
	w.Problem(broken, http.StatusNotFound, job.NotFound)
}
