package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// module starts a server that has one operation of a module, and answers it as the module does.
func module(operation string, answer any) (c *client.Client, stop func()) {
	mux := http.NewServeMux()
	mux.HandleFunc(operation, func(w http.ResponseWriter, _ *http.Request) {
		if text, plain := answer.(string); plain {
			_, _ = io.WriteString(w, text)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	})
	web := httptest.NewServer(mux)
	c, err := client.New(web.URL, client.Options{})
	check(err)
	return c, func() {
		c.Close()
		web.Close()
	}
}

// made is the answer to an order.
func made(id job.ID, state lifecycle.State) api.Job {
	return api.Job{Job: job.Job{ID: id, Position: lifecycle.Position{State: state}}}
}

// The queue counts jobs by collection, kind and state. Its cost does not depend on the number of jobs.
func ExampleClient_Queue() {
	rows := []job.Tally{{Kind: "ingest.job", State: "Estimating", Group: "maps", Jobs: 3}}
	c, stop := module("GET /api/v1/queue", api.Queue{Rows: rows})
	defer stop()
	q, err := c.Queue(context.Background(), client.QueueQuery{Group: "maps"})
	check(err)
	for _, r := range q.Rows {
		fmt.Println(r.Group, r.State, r.Jobs)
	}
	// Output: maps Estimating 3
}

// A profile has the settings of a collection.
func ExampleClient_Profiles() {
	maps := api.Profile{ID: "maps", Owner: "library"}
	c, stop := module("GET /api/v1/ingest/profiles", api.Profiles{Profiles: []api.Profile{maps}})
	defer stop()
	p, err := c.Profiles(context.Background())
	check(err)
	fmt.Println(p.Profiles[0].ID, p.Profiles[0].Owner)
	// Output: maps library
}

// An object is found by its identifier, by the depositor's own name, or by the digest of a file.
func ExampleClient_Objects() {
	atlas := api.Object{ARK: "ark:/99999/fk4atlas", Title: "Atlas", Head: 2}
	c, stop := module("GET /api/v1/ingest/objects", api.Objects{Objects: []api.Object{atlas}})
	defer stop()
	o, err := c.Objects(context.Background(), client.ObjectQuery{LocalID: "atlas-1", Owner: "library"})
	check(err)
	fmt.Println(o.Objects[0].ARK, "version", o.Objects[0].Head)
	// Output: ark:/99999/fk4atlas version 2
}

// A request for access has a token: by it the state of the package is read, and the package is fetched.
func ExampleClient_RequestAccess() {
	c, stop := module("POST /api/v1/access", api.Access{Token: "acc_1", Message: "queued", Status: http.StatusCreated})
	defer stop()
	r := client.AccessRequest{Object: "ark:/99999/fk4atlas", Format: "bag-zip"}
	a, err := c.RequestAccess(context.Background(), r)
	fmt.Println(a.Token, a.Message, err)
	// Output: acc_1 queued <nil>
}

// A notification has what came of its deliveries.
func ExampleClient_Hooks() {
	sent := api.Hook{Key: "hook_1", Type: "job.completed", Status: "abandoned", Error: "410 Gone"}
	c, stop := module("GET /api/v1/hooks", api.Hooks{Hooks: []api.Hook{sent}})
	defer stop()
	h, err := c.Hooks(context.Background(), client.HookQuery{Status: "abandoned"})
	check(err)
	fmt.Println(h.Hooks[0].Type, h.Hooks[0].Error)
	// Output: job.completed 410 Gone
}

// A flow is submitted as a file or by the name of a factory. It is a job of the server.
func ExampleClient_SubmitFlow() {
	c, stop := module("POST /api/v1/flows", made("flw_1", "PENDING"))
	defer stop()
	j, err := c.SubmitFlow(context.Background(), client.FlowOrder{Factory: "resize", Key: "atlas-1"})
	fmt.Println(j.ID, j.State, err)
	// Output: flw_1 PENDING <nil>
}

// An order of a compute job names a service and a command. With a key it makes one job, however often it is sent.
func ExampleClient_SubmitCompute() {
	c, stop := module("POST /api/v1/compute/jobs", api.ComputeJob{ID: "cmp_1", State: "Queued"})
	defer stop()
	o := client.ComputeOrder{Service: "default", Key: "run-7", Command: &client.ComputeCommand{Words: []string{"date"}}}
	j, err := c.SubmitCompute(context.Background(), o, nil, nil)
	fmt.Println(j.ID, j.State, err)
	// Output: cmp_1 Queued <nil>
}

// The output of a compute job is read while the job runs.
func ExampleClient_ComputeLog() {
	c, stop := module("GET /api/v1/compute/jobs/{id}/logs", "3 of 7 images\n")
	defer stop()
	log, err := c.ComputeLog(context.Background(), "cmp_1", client.Stdout, 0)
	check(err)
	defer log.Close()
	_, err = io.Copy(os.Stdout, log)
	check(err)
	// Output: 3 of 7 images
}
