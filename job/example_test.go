package job_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
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
