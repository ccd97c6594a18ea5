package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Save commits what the step has found so far: the next attempt continues from there.
func ExampleRun_Save() {
	e, stop := shop(engine.Options{}, orders(func(ctx context.Context, r *engine.Run) error {
		packed := 0
		if err := r.Data(&packed); err != nil {
			return err
		}
		fmt.Println("begin at", packed)
		if packed > 0 {
			return nil
		}
		if err := r.SetData(2); err != nil {
			return err
		}
		if err := r.Save(ctx); err != nil {
			return err
		}
		return engine.Retry(errors.New("the shelf is empty"))
	}))
	defer stop()
	fmt.Println(string(ended(e, engine.Order{}).Data))
	// Output:
	// begin at 0
	// begin at 2
	// 2
}

// Fields that a step sets stand in the record with the commit that ends the attempt.
func ExampleRun_SetTags() {
	e, stop := shop(engine.Options{}, orders(func(_ context.Context, r *engine.Run) error {
		r.SetBytes(2500)
		r.SetTags("heavy")
		r.SetWords("Maps of Crete")
		r.SetPriority(10)
		return nil
	}))
	defer stop()
	j := ended(e, engine.Order{})
	fmt.Println(j.Bytes, j.Tags, j.Words, j.Priority)
	// Output: 2500 [heavy] crete maps of 10
}

// Key is the same for every attempt at a state, Fence differs: what must happen once goes by the key, what two attempts
// must not share by the fence.
func ExampleRun_Key() {
	var keys, fences []string
	e, stop := shop(engine.Options{}, orders(func(_ context.Context, r *engine.Run) error {
		keys, fences = append(keys, r.Key()), append(fences, r.Fence())
		if r.Last() {
			return nil
		}
		return engine.Retry(errors.New("the shelf is empty"))
	}))
	defer stop()
	ended(e, engine.Order{})
	fmt.Println(len(keys), keys[0] == keys[2], fences[0] == fences[2])
	// Output: 3 true false
}

// Move takes a transition and keeps the claim: one step can walk through several states.
func ExampleRun_Move() {
	e, stop := shop(engine.Options{}, orders(func(ctx context.Context, r *engine.Run) error {
		if err := r.Move(ctx, "pack"); err != nil {
			return err
		}
		fmt.Println(r.Job().State)
		return nil // the success event of Packed
	}))
	defer stop()
	fmt.Println(ended(e, engine.Order{}).State)
	// Output:
	// Packed
	// Sent
}

// The tasks of a job are records below it: they survive an attempt, and people see them.
func ExampleRun_PutTask() {
	e, stop := shop(engine.Options{}, orders(func(_ context.Context, r *engine.Run) error {
		r.PutTask(job.Task{Name: "tea", State: "SUCCESS"})
		r.PutTask(job.Task{Name: "cups", State: "SUCCESS"})
		return nil
	}))
	defer stop()
	tasks, err := e.Store().Tasks(context.Background(), ended(e, engine.Order{}).ID)
	for _, t := range tasks {
		fmt.Println(t.Name, t.State)
	}
	fmt.Println(err)
	// Output:
	// cups SUCCESS
	// tea SUCCESS
	// <nil>
}

// A long step is notified when another party changes its job, and reads the record again.
func ExampleRun_Changed() {
	ctx := context.Background()
	begun := make(chan bool)
	e, stop := shop(engine.Options{}, orders(func(ctx context.Context, r *engine.Run) error {
		changed := r.Changed()
		close(begun)
		<-changed
		if err := r.Fresh(ctx); err != nil {
			return err
		}
		fmt.Println("priority", r.Job().Priority)
		return nil
	}))
	defer stop()
	j, err := e.Submit(ctx, engine.Order{Kind: "order"})
	if err != nil {
		log.Fatal(err)
	}
	<-begun
	if _, err := e.Operator().SetPriority(ctx, j.ID, 0, 5, "ann", "a good customer"); err != nil {
		log.Fatal(err)
	}
	j, err = e.Await(ctx, j.ID, func(j *job.Job) bool { return j.Ended })
	fmt.Println(j.State, err)
	// Output:
	// priority 5
	// Sent <nil>
}

// A long step stops at the end of a unit of work when its engine stops. The next engine continues.
func ExampleRun_Stopping() {
	begun := make(chan bool)
	e, stop := shop(engine.Options{}, orders(func(_ context.Context, r *engine.Run) error {
		close(begun)
		<-r.Stopping()
		if err := r.SetData("half"); err != nil {
			return err
		}
		return engine.Wait(job.Blocker{Code: "stopping", Sentence: "the engine stops", Until: r.Now()})
	}))
	j, err := e.Submit(context.Background(), engine.Order{Kind: "order"})
	if err != nil {
		log.Fatal(err)
	}
	<-begun
	stop()
	j, err = e.Store().Get(context.Background(), j.ID)
	fmt.Println(j.State, string(j.Data), err)
	// Output: Placed "half" <nil>
}

// printed writes the logs of all jobs to standard output.
type printed struct{}

func (printed) Logger(_ job.ID, _ int64, s lifecycle.State) *slog.Logger {
	untimed := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	text := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: untimed})
	return slog.New(text).With("state", s)
}

// What a step logs is the log of its job.
func ExampleRun_Log() {
	e, stop := shop(engine.Options{JobLogs: printed{}}, orders(func(_ context.Context, r *engine.Run) error {
		r.Log().Info("packed", "boxes", 2)
		return nil
	}))
	defer stop()
	ended(e, engine.Order{})
	// Output: level=INFO msg=packed state=Placed boxes=2
}

// Rest moves the job into a state in which no one works, until the time of the blocker or until a person moves it.
func ExampleRun_Rest() {
	visit := lifecycle.Must("visit",
		lifecycle.OnQueue("Asked", "A guest asks for it.",
			lifecycle.OnPass("invite", "Invited", lifecycle.Worker, "The host has time."),
			lifecycle.OnFail("fail", "Declined", lifecycle.Worker|lifecycle.Timer, "The host has none.")),
		lifecycle.OnQueue("Invited", "The guest comes at the time of the visit.",
			lifecycle.OnPass("come", "Over", lifecycle.Worker, "The guest was here."),
			lifecycle.OnFail("fail", "Declined", lifecycle.Worker|lifecycle.Timer, "The guest did not come.")),
		lifecycle.OnEnd("Over", lifecycle.OK, "The guest was here."),
		lifecycle.OnEnd("Declined", lifecycle.Failed, "There was no visit."))
	invite := func(ctx context.Context, r *engine.Run) error {
		tea := r.Now().Add(time.Millisecond)
		return r.Rest(ctx, "invite", job.Blocker{Code: "visit", Sentence: "the tea is at five", Until: tea})
	}
	steps := map[lifecycle.State]engine.Step{"Asked": invite, "Invited": done}
	e, stop := shop(engine.Options{}, engine.Work{Life: visit, Prefix: "vis", Steps: steps})
	defer stop()
	j, err := e.Complete(context.Background(), engine.Order{Kind: "visit"})
	fmt.Println(j.State, err)
	// Output: Over <nil>
}
