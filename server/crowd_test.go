package server_test

import (
	"net/http"
	"testing"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestStreamsOfOneOwner: one owner of tokens has a quarter of the event streams, and 429 with Retry-After for one
// more; another owner is served, and the first again when a stream ends.
func TestStreamsOfOneOwner(t *testing.T) {
	g := servertest.GuardWith(t, func(_ *servertest.Guarded, o *server.Options) { o.Watchers = 8 })
	j := g.Post(engine.Order{Owner: "ann"})
	watch := func(secret string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			g.Web.URL+"/api/v1/jobs/"+string(j.ID)+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+secret)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Body.Close() })
		return a
	}
	var last *http.Response
	for range 2 {
		if last = watch(g.Tokens[identity.Depositor]); last.StatusCode != http.StatusOK {
			t.Fatalf("control: %s", last.Status)
		}
	}
	if a := watch(g.Tokens[identity.Depositor]); a.StatusCode != http.StatusTooManyRequests ||
		a.Header.Get("Retry-After") == "" {
		t.Errorf("got %s, Retry-After %q", a.Status, a.Header.Get("Retry-After"))
	}
	if a := watch(g.Tokens[identity.Operator]); a.StatusCode != http.StatusOK {
		t.Errorf("another owner: %s", a.Status)
	}
	_ = last.Body.Close()
	for watch(g.Tokens[identity.Depositor]).StatusCode != http.StatusOK { // the server notices the end in its own time
	}
}

// TestRequestsOfOneOwner: as TestStreamsOfOneOwner, for requests of any kind.
func TestRequestsOfOneOwner(t *testing.T) {
	g := servertest.GuardWith(t, func(_ *servertest.Guarded, o *server.Options) { o.Requests = 1 })
	j := g.Post(engine.Order{Owner: "ann"})
	ann, err := client.New(g.Web.URL, client.Options{Token: client.NewSecret(g.Tokens[identity.Depositor])})
	if err != nil {
		t.Fatal(err)
	}
	defer ann.Close()
	if _, err := ann.Job(t.Context(), j.ID); err != nil {
		t.Fatalf("control: %v", err)
	}
	inside, over := make(chan struct{}), make(chan error, 1)
	go func() {
		first := true
		over <- ann.Watch(t.Context(), j.ID, 0, func(client.Update) error {
			if first {
				close(inside)
			}
			first = false
			return nil
		})
	}()
	<-inside
	if _, err := ann.Job(t.Context(), j.ID); job.KindOf(err) != job.Unavailable ||
		client.ProblemOf(err).Status != http.StatusTooManyRequests {
		t.Errorf("got %v", err)
	}
}
