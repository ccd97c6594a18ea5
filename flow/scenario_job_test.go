package flow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	jobengine "github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/store/sqlite"
)

// The scenarios of jobs use TaskFlow's jobboard: a worker claims a posting, and consumes, abandons or trashes it. They
// map to this system:
//
//	post      engine.Submit of a job; TaskFlow's five priorities are 10, 30, 50, 70, 90
//	claim     remote.Workers.Claim by an outside worker; other granted jobs are released at once. Without a grant the
//	          job has ended or does not exist (NotFound), or it has an owner
//	consume   remote.Workers.Report with the event of success, under the epoch of the claim
//	trash     the same with the event of failure
//	abandon   a change without a transition, under the epoch: the claim ends, and the job is due again
//	lose_owner, elapse   time passes, and the running engine ends claims that are not renewed
//	state     ended: COMPLETE; claimed: CLAIMED; else UNCLAIMED. listed: not ended. An old epoch is Stale for these
//	          calls; the record has the present owner
type jobStep struct {
	Post      *jobCall   `json:"post"`
	Claim     *jobCall   `json:"claim"`
	Consume   *jobCall   `json:"consume"`
	Abandon   *jobCall   `json:"abandon"`
	Trash     *jobCall   `json:"trash"`
	LoseOwner *jobCall   `json:"lose_owner"`
	Elapse    *float64   `json:"elapse"`
	Expect    *jobExpect `json:"expect"`
}

type jobCall struct {
	Job      string  `json:"job"`
	Who      string  `json:"who"`
	Priority string  `json:"priority"`
	Expiry   float64 `json:"expiry"`
	Raises   string  `json:"raises"`
}

type jobExpect struct {
	States    map[string]string `json:"states"`
	Owner     map[string]string `json:"owner"`
	Unclaimed *[]string         `json:"unclaimed"`
	Listed    *[]string         `json:"listed"`
	Trashed   *int              `json:"trashed"`
	Order     *[]string         `json:"order"`
}

type jobScenario struct {
	ID     string    `json:"id"`
	Test   string    `json:"test"`
	Note   string    `json:"note"`
	Boards []string  `json:"boards"`
	Steps  []jobStep `json:"steps"`
}

// posting is the lifecycle of a job on a board.
var posting = lifecycle.Must("test.posting",
	lifecycle.OnWork("Posted", "it is posted and waits for a worker",
		lifecycle.OnPass("consume", "Consumed", lifecycle.Worker, "it is done"),
		lifecycle.OnFail("trash", "Trashed", lifecycle.Worker|lifecycle.Timer, "it cannot be done")),
	lifecycle.OnEnd("Consumed", lifecycle.OK, "it is done"),
	lifecycle.OnEnd("Trashed", lifecycle.Failed, "it could not be done"),
)

// board is a store with an engine that takes lost claims away.
type board struct {
	t      *testing.T
	store  job.Store
	engine *jobengine.Engine
	ids    map[string]job.ID
	epochs map[string]int64 // "who job": with which it was claimed last
}

// onBoard runs f with an engine over a store, in time that passes by itself.
func onBoard(t *testing.T, open func(t *testing.T) job.Store, f func(*board)) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t)
		works := []jobengine.Work{{Life: posting, Prefix: "pst", Outside: true,
			Policy: jobengine.Policy{MaxStarts: 1000}}}
		e, err := jobengine.New(store, works, jobengine.Options{Name: "board"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		f(&board{t, store, e, map[string]job.ID{}, map[string]int64{}})
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// boards are the stores that have to be a board.
var boards = map[string]func(t *testing.T) job.Store{
	"mem": func(*testing.T) job.Store { return mem.New() },
	"sqlite": func(t *testing.T) job.Store {
		s, err := sqlite.Open(t.TempDir(), sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	},
}

// TestJobScenarios plays the scenarios of jobs on every store.
func TestJobScenarios(t *testing.T) {
	for _, e := range scenarios(t).Jobs {
		var s jobScenario
		if err := strict(e.text, &s); err != nil {
			t.Errorf("%s: %v", e.id, err)
			continue
		}
		for name, open := range boards {
			t.Run(s.ID+"/"+name, func(t *testing.T) {
				onBoard(t, open, func(b *board) {
					for i := range s.Steps {
						if err := b.step(&s.Steps[i]); err != nil {
							t.Errorf("step %d: %v", i+1, err)
						}
					}
				})
			})
		}
	}
}

func (b *board) step(s *jobStep) error {
	for _, c := range []struct {
		call *jobCall
		do   func(*jobCall) error
	}{{s.Post, b.post}, {s.Claim, b.claim}, {s.Abandon, b.abandon}, {s.LoseOwner, b.lose},
		{s.Consume, func(c *jobCall) error { return b.conclude(c, "consume") }},
		{s.Trash, func(c *jobCall) error { return b.conclude(c, "trash") }}} {
		if c.call == nil {
			continue
		}
		raised := ""
		if err := c.do(c.call); err != nil {
			raised = err.Error()
		}
		if raised != c.call.Raises {
			return fmt.Errorf("%+v raises %q, want %q", *c.call, raised, c.call.Raises)
		}
		return nil
	}
	switch {
	case s.Elapse != nil:
		time.Sleep(time.Duration(*s.Elapse * float64(time.Second)))
		b.swept()
		return nil
	case s.Expect != nil:
		return b.expect(s.Expect)
	}
	return fmt.Errorf("the step is empty: %+v", *s)
}

// swept waits until the engine has searched for lost claims.
func (b *board) swept() {
	time.Sleep(time.Minute)
	synctest.Wait()
}

// boardError is a refusal by the name that TaskFlow has for it.
type boardError string

func (e boardError) Error() string { return string(e) }

var priorities = map[string]int{"VERY_HIGH": 10, "HIGH": 30, "": 50, "NORMAL": 50, "LOW": 70, "VERY_LOW": 90}

func (b *board) post(c *jobCall) error {
	p, known := priorities[c.Priority]
	if !known {
		return fmt.Errorf("there is no priority %q", c.Priority)
	}
	j, err := b.engine.Submit(b.t.Context(), jobengine.Order{Kind: "test.posting", Priority: new(p)})
	b.ids[c.Job] = j.ID
	time.Sleep(time.Millisecond) // so that the order of postings is one of time
	return err
}

var onBoards = []job.KindState{{Kind: "test.posting", State: "Posted"}}

func (b *board) claim(c *jobCall) error {
	lease := 10 * time.Minute
	if c.Expiry > 0 {
		lease = time.Duration(c.Expiry * float64(time.Second))
	}
	got, err := b.engine.Remote().Claim(b.t.Context(), remote.Claim{Worker: c.Who, From: onBoards, N: 1000, Lease: lease})
	if job.KindOf(err) == job.Invalid {
		return boardError("ValueError")
	} else if err != nil {
		return err
	}
	found := false
	for _, j := range got {
		if j.ID == b.ids[c.Job] {
			found = true
			b.epochs[c.Who+" "+c.Job] = j.Epoch
		} else if err := b.give(j.ID, j.Epoch); err != nil {
			return err
		}
	}
	if found {
		return nil
	}
	return b.whose(c, nil)
}

// whose returns the error of a refused call, in TaskFlow's terms.
func (b *board) whose(c *jobCall, refused error) error {
	j, err := b.store.Get(b.t.Context(), b.ids[c.Job])
	switch {
	case job.KindOf(err) == job.NotFound, err == nil && (j.Ended || !j.Claimed()):
		return boardError("NotFound")
	case err != nil:
		return err
	case refused == nil:
		return boardError("UnclaimableJob")
	}
	return boardError("JobFailure")
}

// give ends a claim without a transition.
func (b *board) give(id job.ID, epoch int64) error {
	now := b.engine.Clock().Now()
	results, err := b.store.Commit(b.t.Context(), job.Change{Job: id, Epoch: epoch, By: lifecycle.Worker, At: now,
		Set: job.Fields{Due: &now}})
	if err != nil {
		return err
	}
	return results[0].Err
}

func (b *board) abandon(c *jobCall) error {
	if err := b.give(b.ids[c.Job], b.epoch(c)); err != nil {
		return b.whose(c, err)
	}
	return nil
}

// epoch returns the epoch of a worker's claim; a worker that never claimed the job has an invented one.
func (b *board) epoch(c *jobCall) int64 {
	if held, has := b.epochs[c.Who+" "+c.Job]; has {
		return held
	}
	return 1 << 40
}

func (b *board) conclude(c *jobCall, e lifecycle.Event) error {
	record, err := b.store.Get(b.t.Context(), b.ids[c.Job])
	if err != nil {
		return b.whose(c, err)
	}
	if record.Ended { // TaskFlow removes it from the board; here a repeated report would succeed again
		return b.whose(c, job.Errorf(job.Stale, "report", record.ID, "it has ended"))
	}
	results, err := b.engine.Remote().Report(b.t.Context(), c.Who, []job.Job{record},
		[]remote.Report{{Job: record.ID, Epoch: b.epoch(c), Event: e}})
	if err != nil {
		return err
	}
	if results[0].Err != nil {
		return b.whose(c, results[0].Err)
	}
	return nil
}

// lose lets an owner's claim run out.
func (b *board) lose(*jobCall) error {
	time.Sleep(11 * time.Minute)
	b.swept()
	return nil
}

func (b *board) state(name string) (state, owner string, j job.Job) {
	j, err := b.store.Get(b.t.Context(), b.ids[name])
	switch {
	case err != nil || j.Ended:
		return "COMPLETE", "", j
	case j.Claimed():
		return "CLAIMED", j.Worker, j
	}
	return "UNCLAIMED", "", j
}

func (b *board) expect(e *jobExpect) error {
	p := &play{}
	var unclaimed, listed []string
	trashed := 0
	for name := range b.ids {
		state, _, j := b.state(name)
		if state != "COMPLETE" {
			listed = append(listed, name)
		}
		if state == "UNCLAIMED" {
			unclaimed = append(unclaimed, name)
		}
		if j.State == "Trashed" {
			trashed++
		}
	}
	for name, want := range e.States {
		state, _, _ := b.state(name)
		p.differ("state of "+name, want, state)
	}
	for name, want := range e.Owner {
		_, owner, _ := b.state(name)
		p.differ("owner of "+name, want, owner)
	}
	names := func(what string, want *[]string, got []string) {
		if want != nil {
			p.differ(what, slices.Sorted(slices.Values(*want)), slices.Sorted(slices.Values(got)))
		}
	}
	names("unclaimed", e.Unclaimed, unclaimed)
	names("listed", e.Listed, listed)
	if e.Trashed != nil {
		p.differ("trashed", *e.Trashed, trashed)
	}
	if e.Order != nil {
		order, err := b.order()
		if err != nil {
			return err
		}
		p.differ("order", *e.Order, order)
	}
	if len(p.wrong) > 0 {
		return fmt.Errorf("%q", p.wrong)
	}
	return nil
}

// order lists the jobs in the order in which they are granted, one by one.
func (b *board) order() (names []string, err error) {
	for {
		got, err := b.engine.Remote().Claim(b.t.Context(), remote.Claim{Worker: "looker", From: onBoards, N: 1, Lease: time.Hour})
		if err != nil || len(got) == 0 {
			return names, err
		}
		for name, id := range b.ids {
			if id == got[0].ID {
				names = append(names, name)
			}
		}
	}
}

// TestJobTableScenarios compares the lifecycle of a job on a board with the table: allowed changes happen, and all
// others are refused.
func TestJobTableScenarios(t *testing.T) {
	table, has := scenarios(t).Tables["job"]
	if !has {
		return
	}
	bring := map[string][]string{"UNCLAIMED": nil, "CLAIMED": {"claim"}, "COMPLETE": {"claim", "consume"}}
	ways := map[string]string{"UNCLAIMED": "abandon", "CLAIMED": "claim", "COMPLETE": "consume"}
	try := func(t *testing.T, open func(t *testing.T) job.Store, from, to string) (after string, refused error) {
		onBoard(t, open, func(b *board) {
			call := &jobCall{Job: "j", Who: "A"}
			do := func(what string) error {
				return map[string]func() error{"claim": func() error { return b.claim(call) }, "abandon": func() error {
					return b.abandon(call)
				},
					"consume": func() error { return b.conclude(call, "consume") }}[what]()
			}
			if err := b.post(call); err != nil {
				t.Fatal(err)
			}
			for _, what := range bring[from] {
				if err := do(what); err != nil {
					t.Fatal(err)
				}
			}
			refused = do(ways[to])
			after, _, _ = b.state("j")
		})
		return after, refused
	}
	for name, open := range boards {
		for _, pair := range table.Allowed {
			if after, err := try(t, open, pair[0], pair[1]); err != nil || after != pair[1] {
				t.Errorf("%s: %s to %s gives %s, %v", name, pair[0], pair[1], after, err)
			}
		}
		// a request for the present state is refused too, and changes nothing
		for _, pair := range slices.Concat(table.Ignored, table.Forbidden) {
			if after, err := try(t, open, pair[0], pair[1]); err == nil || after != pair[0] {
				t.Errorf("%s: %s to %s gives %s, %v", name, pair[0], pair[1], after, err)
			}
		}
	}
	if text, _ := json.Marshal(table); len(text) < 50 {
		t.Error("the table is empty")
	}
}
