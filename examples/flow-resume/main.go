// Flow-resume publishes a picture by a flow that outlives the program: it is fetched, checked, made in three sizes,
// and put on a page. Let the program die by SIGKILL in the middle, start it again on the same directory, and it goes
// on from what was stored; start it once more, and it prints how it ended.
//
//	go run ./examples/flow-resume -dir picture -die-after resize-medium
//	go run ./examples/flow-resume -dir picture                            # twice
//
// With -fail publish in the second start the page is refused, and what both programs did is reverted.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/sqlite"
)

// What a task gives is stored with its success: others get it even if the program that made it is dead.
var (
	picture = flow.Name[string]("picture")
	sizes   = []flow.Key[string]{flow.Name[string]("small"), flow.Name[string]("medium"), flow.Name[string]("large")}
)

// studio is where the tasks work. Each makes a file that is named for it.
type studio struct{ dir, dieAfter, fail string }

// build is the factory. A program that goes on with a flow builds it anew, the same each time; what is stored is found
// by the names of the tasks.
func (s *studio) build(json.RawMessage) (flow.Item, error) {
	parts := make([]flow.Item, len(sizes))
	for i, size := range sizes {
		parts[i] = flow.Func1("resize-"+size.String(), picture, size,
			func(ctx context.Context, p string) (string, error) { return s.save(ctx, size.String()+" "+p) },
			func(ctx context.Context, _ string, _ *string) error { return s.discard(ctx) })
	}
	return flow.Linear("publish-picture",
		flow.Func0("fetch", picture,
			func(ctx context.Context) (string, error) { return s.save(ctx, "lighthouse") },
			func(ctx context.Context, _ *string) error { return s.discard(ctx) }),
		flow.Proc1("check", picture,
			func(ctx context.Context, p string) error { _, err := s.save(ctx, p+" is sharp"); return err },
			func(ctx context.Context, _ string) error { return s.discard(ctx) }),
		flow.Unordered("resize", parts...),
		flow.Proc3("publish", sizes[0], sizes[1], sizes[2],
			func(ctx context.Context, a, b, c string) error { _, err := s.save(ctx, a+", "+b+", "+c); return err },
			func(ctx context.Context, _, _, _ string) error { return s.discard(ctx) }),
	), nil
}

// save makes the file of a task. If a program crashed before the success of the task was stored, the task is executed
// again, so that must do no harm: the same file is written anew. A service that is not so patient can be given
// flow.Call.Key, which is the same for the repetition.
func (s *studio) save(ctx context.Context, text string) (string, error) {
	task := flow.CallOf(ctx).Atom
	file, word := filepath.Join(s.dir, task), "executed"
	if _, err := os.Stat(file); err == nil {
		word = "repeated"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", err
	}
	fmt.Println(word, task)
	if task == s.dieAfter { // the worst moment: the work is done, and its success is not stored
		if self, err := os.FindProcess(os.Getpid()); err != nil || self.Kill() != nil {
			return "", errors.New("cannot die")
		}
		select {}
	}
	if task == s.fail {
		return "", errors.New(task + " is refused")
	}
	return text, nil
}

// discard reverts what save did. There may be nothing: the task failed before it made the file, or this is a
// repetition.
func (s *studio) discard(ctx context.Context) error {
	task := flow.CallOf(ctx).Atom
	fmt.Println("reverted", task)
	return os.RemoveAll(filepath.Join(s.dir, task)) // does not mind if it is not there
}

// report prints what is stored of the flow.
func report(v *durable.View) {
	var done, active []string
	for _, a := range v.Atoms {
		switch a.State {
		case flow.Success:
			done = append(done, a.Name)
		case flow.Running, flow.Reverting: // being done or queued when the program crashed
			active = append(active, a.Name)
		}
	}
	fmt.Println("found", v.Job.State, "done", done, "active", active)
}

func main() {
	var s studio
	flag.StringVar(&s.dir, "dir", "", "directory of the store and the files")
	flag.StringVar(&s.dieAfter, "die-after", "", "task after whose work the program kills itself")
	flag.StringVar(&s.fail, "fail", "", "task that fails")
	flag.Parse()
	if s.dir == "" {
		log.Fatal("name a directory: -dir")
	}
	store, err := sqlite.Open(filepath.Join(s.dir, "store"), sqlite.Options{})
	check(err)
	defer store.Close()
	flows, err := durable.New(durable.Options{Factories: map[string]durable.Factory{"publish": s.build}})
	check(err)
	e, err := engine.New(store, []engine.Work{flows.Work()}, engine.Options{})
	check(err)
	flows.Bind(e)

	ctx, stop := context.WithCancel(context.Background())
	j, err := flows.Submit(ctx, e, durable.Order{
		Factory: "publish",
		// The first program makes the flow; the later ones, with the same key, get it in its present state.
		Key: "lighthouse",
		// One task after another prints the same each time; without it the sizes are made concurrently.
		Settings: durable.Settings{Workers: 1},
	})
	check(err)
	if j.Ended {
		fmt.Println("ended already:", j.State)
		return
	}
	v, err := flows.View(ctx, store, j.ID)
	check(err)
	report(v)

	done := make(chan error, 1)
	// The engine continues new and interrupted flows. stop: Await must not wait for an engine that cannot run.
	go func() { defer stop(); done <- e.Run(ctx) }()
	j, err = e.Await(ctx, j.ID, func(j *job.Job) bool { return j.Ended })
	stop()
	check(errors.Join(<-done, err))
	fmt.Println("ended:", j.State)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
