package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestUndelivered: record and why of an ended job name the messages that did not leave, to staff; to users they do
// not. Those that were delivered, or not tried yet, are the control.
func TestUndelivered(t *testing.T) {
	g := servertest.Guard(t)
	at := time.Now()
	j := g.Post(engine.Order{Owner: "ann"})
	change := job.Change{Job: j.ID, Version: j.Version, At: at}
	for _, key := range []string{"lost", "late", "taken", "new"} {
		change.Outbox = append(change.Outbox,
			job.Message{Key: "let/" + key, Job: j.ID, Topic: "callback", Body: []byte(`"hush4711"`), Created: at,
				Due: at})
	}
	if r, err := g.Store().Commit(t.Context(), change); err != nil || r[0].Err != nil {
		t.Fatal(r, err)
	}
	later := at.Add(time.Hour)
	settle := []job.Message{
		{Key: "let/lost", Settled: job.Abandoned, Error: "example.org answers 404 Not Found"},
		{Key: "let/taken", Settled: job.Delivered},
		{Key: "let/late", Error: "example.org answers 503", Due: later},
	}
	if err := g.Store().Settle(t.Context(), settle...); err != nil {
		t.Fatal(err)
	}
	view := func(secret string) (client.Job, client.Explanation, string) {
		t.Helper()
		c, err := client.New(g.Web.URL, client.Options{Token: client.NewSecret(secret)})
		if err != nil {
			t.Fatal(err)
		}
		v, err := c.Job(t.Context(), j.ID)
		if err != nil {
			t.Fatal(err)
		}
		x, err := c.Why(t.Context(), j.ID, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		_, text := g.Ask(g.With(secret, http.MethodGet, "/api/v1/jobs/"+string(j.ID), ""))
		return v, x, text
	}
	staff, user := g.Tokens[identity.Operator], g.Tokens[identity.Depositor]
	if _, x, _ := view(staff); strings.Contains(x.Blockers[0].Code, "undelivered") {
		t.Errorf("it has not ended: got %+v", x.Blockers)
	}
	admin, err := client.New(g.Web.URL, client.Options{Token: client.NewSecret(g.Tokens[identity.Admin])})
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range []lc.Event{"hold", "delete"} {
		if _, err := admin.Do(t.Context(), j.ID, event, client.Act{Confirm: true, Note: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	v, x, text := view(staff)
	if len(v.Undelivered) != 2 || v.Undelivered[0].Key != "let/lost" || v.Undelivered[1].Key != "let/late" ||
		strings.Contains(text, "hush4711") {
		t.Errorf("got %s", text)
	}
	if len(x.Blockers) != 3 || x.Blockers[0].Code != explain.BlockEnded {
		t.Fatalf("got %+v", x.Blockers)
	}
	lost, late := x.Blockers[1], x.Blockers[2]
	if !strings.Contains(lost.Sentence, "was abandoned") || !strings.Contains(lost.Sentence, "404 Not Found") ||
		len(lost.Remedies) != 1 || lost.Remedies[0].Command != "stagepost admin outbox replay let/lost --note WHY" {
		t.Errorf("got %+v", lost)
	}
	if !strings.Contains(late.Sentence, "was not delivered: example.org answers 503") || !late.Until.Equal(later) {
		t.Errorf("got %+v", late)
	}
	if v, x, text := view(user); len(v.Undelivered) > 0 || len(x.Blockers) != 1 || strings.Contains(text, "let/") {
		t.Errorf("a user: got %s and %+v", text, x.Blockers)
	}
}
