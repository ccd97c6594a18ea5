package job_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

var letter = lifecycle.Must("letter",
	lifecycle.OnQueue("Posted", "A sender brings it; a clerk takes it.",
		lifecycle.OnPass("send", "Sent", lifecycle.Worker, "It is on its way."),
		lifecycle.OnFail("fail", "Lost", lifecycle.Worker|lifecycle.Timer, "It cannot be read.")),
	lifecycle.OnEnd("Sent", lifecycle.OK, "It is on its way."),
	lifecycle.OnEnd("Lost", lifecycle.Failed, "It could not be read."))

// The kind of an error determines what its reader can do; the same kinds are in the API.
func ExampleKindOf() {
	err := fmt.Errorf("claim: %w", job.Errorf(job.Conflict, "commit", "let_1", "the record has changed"))
	fmt.Println(err)
	fmt.Println(job.KindOf(err), job.KindOf(err).Retryable(), job.Reason(err))
	fmt.Println(job.KindOf(errors.New("anything else")))
	// Output:
	// claim: let_1: the record has changed
	// conflict true the record has changed
	// internal
}

// A scope selects the jobs of a hold: those that match every field that is set.
func ExampleScope() {
	maps := job.Scope{Kind: "letter", Group: "maps"}
	fmt.Println(maps)
	fmt.Println(maps.Matches(&job.Job{Kind: "letter", Group: "maps"}))
	fmt.Println(maps.Matches(&job.Job{Kind: "parcel", Group: "maps"}))
	fmt.Println(job.Scope{})
	// Output:
	// group=maps kind=letter
	// true
	// false
	// everything
}

// The history of a job is a chain of hashes that ends in its record: an entry that was changed is found.
func ExampleVerify() {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	j, created := job.New(job.Job{ID: "let_1", Kind: "letter", Position: letter.Start()}, lifecycle.Owner, "ann", at)
	to, _ := letter.Next(j.Position, "fail", lifecycle.Timer)
	j, failed, err := job.Apply(j, &job.Change{
		Job: j.ID, Version: j.Version, Event: "fail", From: j.State, To: to, Ended: true,
		By: lifecycle.Timer, At: at.Add(time.Hour),
	})
	fmt.Println(j.State, err)
	history := []job.Event{created, *failed}
	fmt.Println(job.Verify(j, history, letter))
	history[0].Actor = "ben"
	fmt.Println(job.Verify(j, history, letter) != nil)
	// Output:
	// Lost <nil>
	// <nil>
	// true
}

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// filled makes a store in memory that has letters with the ids.
func filled(ids ...job.ID) *mem.Store {
	store := mem.New()
	for _, id := range ids {
		j, created := job.New(job.Job{ID: id, Kind: "letter", Position: letter.Start(), Group: "maps"},
			lifecycle.Owner, "ann", noon)
		if _, err := store.Create(context.Background(), job.Created{Job: j, Event: created}); err != nil {
			log.Fatal(err)
		}
	}
	return store
}

// posted is a claim of letters.
func posted(n int, limits ...job.Limit) job.Claim {
	return job.Claim{
		Worker: "w1", From: []job.KindState{{Kind: "letter", State: "Posted"}}, N: n,
		Now: noon, Lease: time.Minute, Limits: limits,
	}
}

// A worker claims a job and commits a transition under the epoch of its claim. Under an earlier epoch it is Stale.
func ExampleStore() {
	ctx := context.Background()
	store := filled("let_1")
	claimed, err := store.Claim(ctx, posted(1))
	if err != nil {
		log.Fatal(err)
	}
	j := claimed[0]
	to, _ := letter.Next(j.Position, "send", lifecycle.Worker)
	c := job.Change{
		Job: j.ID, Epoch: j.Epoch, Event: "send", From: j.State, To: to, Ended: true,
		By: lifecycle.Worker, Actor: "w1", At: noon,
	}
	for range 2 {
		results, err := store.Commit(ctx, c)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(results[0].Job.State, results[0].Err == nil, job.KindOf(results[0].Err) == job.Stale)
	}
	// Output:
	// Sent true false
	// Sent false true
}

// A claim grants no job beyond a limit.
func ExampleLimit() {
	store := filled("let_1", "let_2", "let_3")
	claimed, err := store.Claim(context.Background(), posted(3, job.Limit{Name: "bags", Kind: "letter", Max: 2}))
	fmt.Println(len(claimed), err)
	// Output: 2 <nil>
}

// A renewal extends leases, and returns those that have ended: their workers stop.
func ExampleLease() {
	ctx := context.Background()
	store := filled("let_1")
	claimed, err := store.Claim(ctx, posted(1))
	if err != nil {
		log.Fatal(err)
	}
	lost, err := store.Renew(ctx, job.Renewal{Worker: "w1", Now: noon, Lease: 2 * time.Minute, Leases: []job.Lease{
		{Job: claimed[0].ID, Epoch: claimed[0].Epoch},
		{Job: claimed[0].ID, Epoch: claimed[0].Epoch - 1},
	}})
	fmt.Println(lost, err)
	// Output: [{let_1 0}] <nil>
}

// A query selects jobs. Next of a page is After of the query for the next page.
func ExampleQuery() {
	store := filled("let_1", "let_2", "let_3")
	q := job.Query{Kinds: []job.Kind{"letter"}, Oldest: true, Limit: 2}
	for {
		page, err := store.List(context.Background(), q)
		if err != nil {
			log.Fatal(err)
		}
		for i := range page.Jobs {
			fmt.Println(page.Jobs[i].ID)
		}
		fmt.Println(page.Next != "")
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	tallies, err := store.Count(context.Background())
	fmt.Println(tallies[0].State, tallies[0].Jobs, err)
	// Output:
	// let_1
	// let_2
	// true
	// let_3
	// false
	// Posted 3 <nil>
}

// A job that was claimed twice without a report may have crashed its workers.
func ExampleJob_Suspect() {
	j := job.Job{Position: letter.Start(), Starts: 1}
	fmt.Println(j.Suspect())
	j.Starts = job.SuspectStarts
	fmt.Println(j.Suspect())
	// Output:
	// false
	// true
}

// Tags are stored sorted, each once.
func ExampleTagged() {
	fmt.Println(job.Tagged("heavy", "fragile", "heavy"))
	// Output: [fragile heavy]
}

// A job requires labels that its worker must have. They are sorted, each once.
func ExampleRequired() {
	required, err := job.Required("zone=b", "gpu", "gpu")
	fmt.Println(required, err)
	fmt.Println("lacking:", job.Lacking(required, []string{"gpu"}))
	_, err = job.Required("two words")
	fmt.Println(job.KindOf(err), job.IsLabel("two words"))
	// Output:
	// [gpu zone=b] <nil>
	// lacking: [zone=b]
	// invalid false
}

// A number and priorities have bounds that callers check before they submit.
func ExampleLastPriority() {
	fmt.Println(job.FirstPriority, job.DefaultPriority, job.LastPriority)
	// Output: 0 50 99
}

// A query selects messages by their result: the error of a message that is not delivered is that of its last attempt.
func ExampleMessageQuery() {
	abandoned := job.Abandoned
	q := job.MessageQuery{Topic: "mail", Settled: &abandoned}
	fmt.Println(q.Matches(&job.Message{Topic: "mail", Settled: job.Abandoned}))
	fmt.Println(q.Matches(&job.Message{Topic: "mail", Settled: job.Delivered}))
	// Output:
	// true
	// false
}

// IsFull recognizes a file system without free space, whatever wraps the error.
func ExampleIsFull() {
	err := &job.Error{Op: "backup", Kind: job.Unavailable, Err: &job.Full{Dir: "/srv/stagepost", Free: 0, Need: 4096}}
	fmt.Println(job.IsFull(err))
	fmt.Println(job.Reason(err))
	// Output:
	// true
	// storage full: /srv/stagepost has 0 bytes free, and 4096 more are needed; free space and the server continues by itself
}

// A remedy is the same step as a command and as an operation of the API.
func ExampleRemedy() {
	for _, r := range []job.Remedy{
		job.Causing("retry", "let_1", false, "runs it again"),
		job.Releasing(job.Scope{Group: "old maps"}),
	} {
		fmt.Println(r.Command)
		fmt.Println(r.Method, r.Path)
	}
	// Output:
	// stagepost retry let_1
	// POST /api/v1/jobs/let_1/events/retry
	// stagepost release --group 'old maps'
	// DELETE /api/v1/holds?group=old+maps
}

// What is done under the context of a request has the address of its sender, in the history and in the audit log.
func ExampleWithAddress() {
	ctx := job.WithAddress(context.Background(), "192.0.2.7")
	entry := job.Audit{Actor: "ann", Event: "break-lock", Address: job.AddressOf(ctx)}
	fmt.Println(entry.Actor, entry.Event, entry.Address, len(entry.Address) <= job.MostAddress)
	entry.Address = job.Withheld // for readers who may not see it
	fmt.Println(entry.Address)
	// Output:
	// ann break-lock 192.0.2.7 true
	// ***
}

// The entries of the audit log are a chain of hashes: an entry that was changed is found.
func ExampleVerifyAudit() {
	put := job.AuditedHold(&job.Hold{
		Scope: job.Scope{Group: "maps"}, Who: "ann", Why: "the archive moves", Since: noon,
	})
	put.Seq = 1
	put.Seal(job.Hash{})
	fmt.Println(put.Event, put.Object, job.VerifyAudit(nil, []job.Audit{put}))
	put.Actor = "ben"
	fmt.Println(job.VerifyAudit(nil, []job.Audit{put}))
	// Output:
	// hold group=maps <nil>
	// audit entry 1 (hold by ben) does not match its hash: it was changed
}

// A hint names a job that changed, and what a waiter needs to decide whether to read it.
func ExampleHintOf() {
	j := job.Job{ID: "let_1", Kind: "letter", Position: letter.Start()}
	h := job.HintOf(&j)
	fmt.Println(h.Job, h.State, h.Free)
	// Output: let_1 Posted true
}

// The source of the package is in the program: the description of the API takes the comments of the types from it.
func ExampleSource() {
	text, err := job.Source.ReadFile("query.go")
	fmt.Println(strings.Contains(string(text), "Tally counts jobs with the same properties."), err)
	// Output: true <nil>
}

// Words are those of titles and names, without differences of case and accents. A query has all of them, the last one
// as the beginning of a word.
func ExampleCheckWords() {
	j := job.Job{Words: "crete maps of"}
	fmt.Println(job.CheckWords(j.Words))
	fmt.Println(job.CheckWords("Maps of Crete"))
	q := job.Query{Words: []string{"maps", "cr"}}
	fmt.Println(q.HasWords(&j))
	// Output:
	// <nil>
	// "Maps" is no word of a job
	// true
}
