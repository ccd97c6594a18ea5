package client_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/store/mem"
)

// letterServer starts a server whose letters are worked on through the API.
func letterServer() (c *client.Client, stop func()) {
	letter := lifecycle.Must("letter",
		lifecycle.OnQueue("Posted", "A sender brings it; a worker takes it.",
			lifecycle.OnPass("send", "Sent", lifecycle.Worker, "It is on its way."),
			lifecycle.OnFail("fail", "Lost", lifecycle.Worker|lifecycle.Timer, "It cannot be read.")),
		lifecycle.OnEnd("Sent", lifecycle.OK, "It is on its way."),
		lifecycle.OnEnd("Lost", lifecycle.Failed, "It could not be read.",
			lifecycle.OnReenter("retry", lifecycle.Operator, "It can be read now.", "Posted")))
	e, err := engine.New(mem.New(), []engine.Work{{Life: letter, Prefix: "let", Outside: true, Orders: true}}, engine.Options{})
	if err != nil {
		log.Fatal(err)
	}
	s := server.New(server.Options{Engine: e})
	web := httptest.NewServer(s)
	if c, err = client.New(web.URL, client.Options{}); err != nil {
		log.Fatal(err)
	}
	return c, func() {
		c.Close()
		s.Close()
		web.Close()
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A worker claims jobs and reports how its work ended; the event follows from the lifecycle.
func ExampleClient_Claim() {
	ctx := context.Background()
	c, stop := letterServer()
	defer stop()
	_, err := c.Create(ctx, api.Order{Kind: "letter", Spec: []byte(`{"to": "Ada"}`)})
	check(err)
	leased, err := c.Claim(ctx, api.Claim{Worker: "w1", From: []job.KindState{{Kind: "letter", State: "Posted"}}, N: 1})
	check(err)
	fmt.Println(leased[0].State, string(leased[0].Spec))
	_, err = c.Report(ctx, api.Reports{Worker: "w1", Reports: []api.Report{{Job: leased[0].ID, Epoch: leased[0].Epoch}}})
	check(err)
	j, err := c.Job(ctx, leased[0].ID)
	check(err)
	fmt.Println(j.State, j.Outcome)
	// Output:
	// Posted {"to":"Ada"}
	// Sent ok
}

// Why gives what keeps a job from moving.
func ExampleClient_Why() {
	ctx := context.Background()
	c, stop := letterServer()
	defer stop()
	_, err := c.Hold(ctx, api.Hold{Scope: job.Scope{Group: "maps"}, Who: "ann", Why: "the archive moves"})
	check(err)
	j, err := c.Create(ctx, api.Order{Kind: "letter", Group: "maps"})
	check(err)
	x, err := c.Why(ctx, j.ID, time.Time{})
	check(err)
	for _, b := range x.Blockers {
		fmt.Println(b.Code+":", b.Sentence)
	}
	// Output:
	// outside: Posted is for workers outside this process
	// hold: group=maps is on hold: the archive moves
}

// A refusal has a kind, and names the events that are possible instead.
func ExampleClient_Do() {
	ctx := context.Background()
	c, stop := letterServer()
	defer stop()
	j, err := c.Create(ctx, api.Order{Kind: "letter"})
	check(err)
	_, err = c.Do(ctx, j.ID, "retry", api.Act{Actor: "ann", Note: "again"})
	fmt.Println(job.KindOf(err), client.ProblemOf(err).State)
	// Output: refused Posted
}
