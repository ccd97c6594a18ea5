package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// A client is for one server. A token prints as ***.
func ExampleNew() {
	_, stop := letterServer()
	defer stop()
	o := client.Options{Token: client.NewSecret("open sesame")}
	c, err := client.New("http://127.0.0.1:8080", o)
	check(err)
	defer c.Close()
	fmt.Println(c.Base(), o.Token)
	// Output: http://127.0.0.1:8080 ***
}

// An error of the server has a kind, and details for programs. Other errors have no problem.
func ExampleProblemOf() {
	c, stop := letterServer()
	defer stop()
	_, err := c.Job(context.Background(), "let_unknown")
	fmt.Println(job.KindOf(err), client.ProblemOf(err).Status)
	fmt.Println(client.ProblemOf(errors.New("no answer")) == nil)
	// Output:
	// not-found 404
	// true
}

// A call that may be made twice is repeated while a server restarts.
func ExamplePersistent() {
	var calls atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id": "let_1"}`)
	}))
	defer web.Close()
	c, err := client.New(web.URL, client.Options{})
	check(err)
	defer c.Close()
	for range 2 {
		j, err := c.Job(client.Persistent(context.Background()), "let_1")
		fmt.Println(j.ID, err)
	}
	fmt.Println(calls.Load(), "calls")
	// Output:
	// let_1 <nil>
	// let_1 <nil>
	// 3 calls
}

// Send calls an operation for which the client has no method.
func ExampleSend() {
	c, stop := letterServer()
	defer stop()
	order := api.Order{Kind: "letter"}
	j, err := client.Send[api.Job](context.Background(), c, http.MethodPost, "/api/v1/jobs", nil, order)
	fmt.Println(j.State, err)
	// Output: Posted <nil>
}

// The history of a job has each transition, with who caused it.
func ExampleClient_History() {
	ctx := context.Background()
	c, stop := letterServer()
	defer stop()
	j, err := c.Create(ctx, api.Order{Kind: "letter", Actor: "ann", Note: "by the morning post"})
	check(err)
	history, err := c.History(ctx, j.ID, 0, 0)
	check(err)
	for _, h := range history {
		fmt.Println(h.Seq, h.Event, h.To, h.Note)
	}
	// Output: 1 create Posted by the morning post
}

// Stuck lists the jobs that are open and should not be, with the reasons.
func ExampleClient_Stuck() {
	ctx := context.Background()
	c, stop := letterServer()
	defer stop()
	_, err := c.Create(ctx, api.Order{Kind: "letter"})
	check(err)
	s, err := c.Stuck(ctx, client.StuckQuery{Kinds: []job.Kind{"letter"}})
	fmt.Println(s.Looked, s.Found, err)
	// Output: 1 0 <nil>
}

// A hold keeps the jobs of its scope from being claimed until it is released.
func ExampleClient_Hold() {
	ctx := context.Background()
	c, stop := letterServer()
	defer stop()
	maps := job.Scope{Group: "maps"}
	_, err := c.Hold(ctx, api.Hold{Scope: maps, Who: "ann", Why: "the archive moves"})
	check(err)
	_, err = c.Create(ctx, api.Order{Kind: "letter", Group: "maps"})
	check(err)
	claim := api.Claim{Worker: "w1", From: letters, N: 1}
	leased, err := c.Claim(ctx, claim)
	fmt.Println(len(leased), "claimed", err)
	_, err = c.Release(ctx, maps, "ann", "it has moved")
	check(err)
	leased, err = c.Claim(ctx, claim)
	fmt.Println(len(leased), "claimed", err)
	// Output:
	// 0 claimed <nil>
	// 1 claimed <nil>
}

// A worker that is drained finishes its jobs and gets no new ones until it is resumed.
func ExampleClient_DrainWorker() {
	ctx := context.Background()
	c, stop := letterServer()
	defer stop()
	_, err := c.Create(ctx, api.Order{Kind: "letter"})
	check(err)
	_, err = c.DrainWorker(ctx, "w1", api.WorkerDrain{Note: "a new disk"})
	check(err)
	claim := api.Claim{Worker: "w1", From: letters, N: 1}
	leased, err := c.Claim(ctx, claim)
	fmt.Println(len(leased), "claimed", err)
	workers, err := c.ResumeWorker(ctx, "w1", api.WorkerDrain{})
	check(err)
	fmt.Println(workers[0].Name, workers[0].State)
	leased, err = c.Claim(ctx, claim)
	fmt.Println(len(leased), "claimed", err)
	// Output:
	// 0 claimed <nil>
	// w1 idle
	// 1 claimed <nil>
}

// A bulk causes one event on all jobs of a query. The preview counts them and changes nothing.
func ExampleClient_BulkPreview() {
	c, stop := module("POST /api/v1/bulk", api.BulkPreview{Event: "retry", Count: 7, Legal: 6})
	defer stop()
	p, err := c.BulkPreview(context.Background(), client.Bulk{Group: "maps", Event: "retry"})
	fmt.Println(p.Legal, "of", p.Count, err)
	// Output: 6 of 7 <nil>
}

// The lifecycles of a server have their states and events, for forms and completion.
func ExampleClient_Lifecycles() {
	c, stop := letterServer()
	defer stop()
	all, err := c.Lifecycles(context.Background())
	check(err)
	for _, l := range all {
		fmt.Println(l.Name, l.States)
	}
	// Output: letter [Posted Sent Lost]
}

// The outbox has the messages that are to be sent, and those that were abandoned.
func ExampleClient_Outbox() {
	c, stop := letterServer()
	defer stop()
	o, err := c.Outbox(context.Background(), client.OutboxQuery{Status: "abandoned"})
	fmt.Println(len(o.Messages), err)
	// Output: 0 <nil>
}

// The audit log has what people did, with their reasons.
func ExampleClient_Audit() {
	ctx := context.Background()
	c, stop := letterServer()
	defer stop()
	until := time.Now().Add(time.Hour)
	_, err := c.Hold(ctx, api.Hold{Scope: job.Scope{Group: "maps"}, Who: "ann", Why: "the archive moves", Until: until})
	check(err)
	_, err = c.Release(ctx, job.Scope{Group: "maps"}, "ann", "it has moved")
	check(err)
	a, err := c.Audit(ctx, client.AuditQuery{Actor: "ann", Event: "release"})
	check(err)
	for _, e := range a.Entries {
		fmt.Println(e.Actor, e.Event, e.Object, "because", e.Note)
	}
	// Output: ann release group=maps because it has moved
}
