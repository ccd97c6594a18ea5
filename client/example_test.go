package client_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	archivehttp "github.com/stagepost/stagepost/app/archive/http"
	ingesthttp "github.com/stagepost/stagepost/app/ingest/http"
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
	work := engine.Work{Life: letter, Prefix: "let", Outside: true, Orders: true}
	e, err := engine.New(mem.New(), []engine.Work{work}, engine.Options{})
	check(err)
	s := server.New(server.Options{Engine: e, Maintenance: copier{}})
	s.Add(ingesthttp.Part(s, ingesthttp.Options{Ingest: mailbox{Engine: e}}))
	web := httptest.NewServer(s)
	c, err = client.New(web.URL, client.Options{})
	check(err)
	return c, func() {
		c.Close()
		s.Close()
		web.Close()
	}
}

var letters = []job.KindState{{Kind: "letter", State: "Posted"}}

// mailbox makes a letter of each payload.
type mailbox struct {
	ingesthttp.Ingest
	*engine.Engine
}

func (m mailbox) Submit(ctx context.Context, _ string, s api.Submission, payload io.Reader) (job.Job, error) {
	text, err := io.ReadAll(payload)
	if err != nil {
		return job.Job{}, err
	}
	return m.Engine.Submit(ctx, engine.Order{Kind: "letter", Key: s.Key, Spec: map[string]string{"text": string(text)}})
}

// copier makes backups in which there is nothing.
type copier struct{ server.Maintenance }

func (copier) Backup(_ context.Context, b api.Backup) (api.BackedUp, error) {
	return api.BackedUp{Dir: "backups/" + b.Name}, nil
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
	leased, err := c.Claim(ctx, api.Claim{Worker: "w1", From: letters, N: 1})
	check(err)
	fmt.Println(leased[0].State, string(leased[0].Spec))
	_, err = c.Report(ctx, client.Reports{
		Worker: "w1", Reports: []client.Report{{Job: leased[0].ID, Epoch: leased[0].Epoch}}})
	check(err)
	j, err := c.Job(ctx, leased[0].ID)
	check(err)
	fmt.Println(j.State, j.Outcome)
	// Output:
	// Posted {"to":"Ada"}
	// Sent ok
}

// Why returns the reasons for which a job waits.
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

// An order with a key makes one job, however often it is sent.
func ExampleClient_Create() {
	ctx := context.Background()
	c, stop := letterServer()
	defer stop()
	first, err := c.Create(ctx, api.Order{Kind: "letter", Key: "2026-11-23/1", Group: "maps"})
	check(err)
	again, err := c.Create(ctx, api.Order{Kind: "letter", Key: "2026-11-23/1", Group: "maps"})
	check(err)
	fmt.Println(first.State, again.ID == first.ID)
	// Output: Posted true
}

// A list has pages: Next of one page is After of the query for the next page.
func ExampleClient_Jobs() {
	ctx := context.Background()
	c, stop := letterServer()
	defer stop()
	for _, owner := range []string{"ann", "bob", "ann"} {
		_, err := c.Create(ctx, api.Order{Kind: "letter", Owner: owner})
		check(err)
	}
	q := job.Query{Owner: "ann", Oldest: true, Limit: 1}
	for {
		page, err := c.Jobs(ctx, q)
		check(err)
		for _, j := range page.Jobs {
			fmt.Println(j.Number, j.State)
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	// Output:
	// 1 Posted
	// 3 Posted
}

// Watch returns when the job has ended. It reconnects when the server restarts.
func ExampleClient_Watch() {
	ctx := context.Background()
	c, stop := letterServer()
	defer stop()
	j, err := c.Create(ctx, api.Order{Kind: "letter"})
	check(err)
	leased, err := c.Claim(ctx, client.Claim{Worker: "w1", From: letters, N: 1})
	check(err)
	_, err = c.Report(ctx, client.Reports{
		Worker: "w1", Reports: []client.Report{{Job: j.ID, Epoch: leased[0].Epoch, Fail: "it is torn"}}})
	check(err)
	err = c.Watch(ctx, j.ID, 0, func(u client.Update) error {
		if u.Event != nil {
			fmt.Println(u.Event.Event, "to", u.Event.To)
		}
		return nil
	})
	check(err)
	// Output:
	// create to Posted
	// fail to Lost
}

// A worker claims jobs until none is left. Wait in a claim makes it wait for the next job instead.
func ExampleClient_Report() {
	ctx := context.Background()
	c, stop := letterServer()
	defer stop()
	for range 3 {
		_, err := c.Create(ctx, api.Order{Kind: "letter"})
		check(err)
	}
	for {
		jobs, err := c.Claim(ctx, client.Claim{Worker: "w1", From: letters, N: 2})
		check(err)
		if len(jobs) == 0 {
			break
		}
		done := client.Reports{Worker: "w1"}
		for _, j := range jobs { // the work is done here
			done.Reports = append(done.Reports, client.Report{Job: j.ID, Epoch: j.Epoch})
		}
		results, err := c.Report(ctx, done)
		check(err)
		fmt.Println(len(results), results[0].State)
	}
	// Output:
	// 2 Sent
	// 1 Sent
}

// Submit uploads a payload. With a key it is repeated after a broken connection, and makes one batch.
func ExampleClient_Submit() {
	ctx := context.Background()
	c, stop := letterServer()
	defer stop()
	j, err := c.Submit(ctx, client.Submission{Key: "box-7"}, strings.NewReader("Dear Ada"))
	check(err)
	fmt.Println(j.State, string(j.Spec))
	// Output: Posted {"text":"Dear Ada"}
}

// Backup returns when the backup is complete.
func ExampleClient_Backup() {
	c, stop := letterServer()
	defer stop()
	b, err := c.Backup(context.Background(), client.Backup{Name: "monday"})
	check(err)
	fmt.Println(b.Dir)
	// Output: backups/monday
}

// A large input of a compute job is uploaded first. After a broken connection the upload continues where the server
// has the file. The server of this example has uploads only.
func ExampleClient_UploadCompute() {
	size := int64(0)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Tus-Resumable", "1.0.0")
		if r.Method == http.MethodPost {
			w.Header().Set("Location", r.URL.Path+"/up_1")
			w.WriteHeader(http.StatusCreated)
			return
		}
		n, _ := io.Copy(io.Discard, r.Body)
		size += n
		w.Header().Set("Upload-Offset", strconv.FormatInt(size, 10))
		w.WriteHeader(http.StatusNoContent)
	}))
	defer web.Close()
	c, err := client.New(web.URL, client.Options{})
	check(err)
	defer c.Close()
	input := strings.NewReader("a,b\n1,2\n")
	file := &client.ComputeSource{Name: "input.csv", Size: input.Size(), Content: input}
	id, err := c.UploadCompute(context.Background(), file, nil)
	check(err)
	order := client.ComputeOrder{Service: "default", Uploads: []string{id}} // for SubmitCompute
	fmt.Println(order.Uploads, size)
	// Output: [up_1] 8
}

// shelf is an archive with one course.
type shelf struct{ archivehttp.Archive }

func (shelf) Plan(_ context.Context, r api.ArchiveRequest) (api.ArchivePlan, error) {
	return api.ArchivePlan{
		Course: api.ArchiveCourse{ID: r.Course, Name: "Algebra"}, Bytes: 4096, Package: "archive-ALG-5",
		Activities: []api.ArchiveActivity{{ID: "17", Module: "quiz", Name: "Final exam", State: "changed"}},
	}, nil
}

func (shelf) Overview(context.Context, string, string) (api.ArchiveOverview, error) {
	return api.ArchiveOverview{Counts: map[string]int{"archived": 3, "changed": 1}}, nil
}

func archiveServer() (c *client.Client, stop func()) {
	e, err := engine.New(mem.New(), nil, engine.Options{})
	check(err)
	s := server.New(server.Options{Engine: e})
	s.Add(archivehttp.Part(s, shelf{}))
	web := httptest.NewServer(s)
	c, err = client.New(web.URL, client.Options{})
	check(err)
	return c, func() {
		c.Close()
		s.Close()
		web.Close()
	}
}

// A plan states what a request would archive. Nothing is started.
func ExampleClient_PlanArchive() {
	c, stop := archiveServer()
	defer stop()
	p, err := c.PlanArchive(context.Background(), client.ArchiveRequest{Source: "campus", Course: "5"})
	check(err)
	for _, a := range p.Activities {
		fmt.Printf("%s: %s %s is %s\n", p.Package, a.Module, a.Name, a.State)
	}
	// Output: archive-ALG-5: quiz Final exam is changed
}

// An overview counts the activities of a course that are archived, changed since, or missing.
func ExampleClient_ArchiveOverview() {
	c, stop := archiveServer()
	defer stop()
	o, err := c.ArchiveOverview(context.Background(), "campus", "5")
	check(err)
	fmt.Println(o.Counts["archived"], "archived,", o.Counts["changed"], "changed")
	// Output: 3 archived, 1 changed
}

func (shelf) RequestDeletion(_ context.Context, id job.ID, by, note string) (api.ArchiveDeletion, error) {
	return api.ArchiveDeletion{
		Request: "del-1", Job: id, Kind: "early", State: "requested", RequestedBy: by, Reason: note,
	}, nil
}

func (shelf) DecideDeletion(
	_ context.Context, request, by string, approve bool, _ string,
) (api.ArchiveDeletion, error) {
	state := map[bool]string{true: "approved", false: "refused"}[approve]
	return api.ArchiveDeletion{Request: request, State: state, DecidedBy: by}, nil
}

// Before the retention time of an archive has ended, two persons delete it.
func ExampleClient_DeleteArchive() {
	c, stop := archiveServer()
	defer stop()
	ctx := context.Background()
	d, err := c.DeleteArchive(ctx, "arc_1", client.DeleteArchive{Note: "wrong course", Actor: "ann"})
	check(err)
	fmt.Println(d.State, "by", d.RequestedBy)
	d, err = c.DecideDeletion(ctx, d.Request, client.DecideDeletion{Approve: true, Actor: "ben"})
	check(err)
	fmt.Println(d.State, "by", d.DecidedBy)
	// Output:
	// requested by ann
	// approved by ben
}
