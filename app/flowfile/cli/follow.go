package flowcli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Bounds of following a flow.
const (
	flowPause = 200 * time.Millisecond // between two requests for the whole flow
	flowTick  = time.Second            // between two drawings of a tree in which nothing but time goes on
	flowLines = 100                    // of the tree that is left standing
)

// errLeft is the error after Ctrl-C.
var errLeft = errors.New("interrupted; the flow continues")

// paused reports whether a flow is SUSPENDED for a person. While a worker that found it after a crash claims it, it
// goes on by itself.
func paused(j *job.Job) bool { return j.State == flow.Suspended && !j.Claimed() }

// followFlow shows what happens to a flow from entry after of its history on, until it has ended or pauses, and gives
// its last view. Ctrl-C ends it with errLeft; interrupt, if given, is called in place of that the first time, and gives
// what to report.
func (c *commands) followFlow(ctx context.Context, api *client.Client, id job.ID, after int64,
	interrupt func() (string, error)) (client.Flow, error) {
	f := &flowFollower{commands: c, api: api, id: id, states: map[string]string{}}
	if c.Out.Terminal && c.Out.Mode == cli.ModeTable {
		f.screen = newScreen(c.Out)
	}
	err := f.follow(ctx, after, interrupt)
	if f.screen != nil && f.last.Name != "" { // also what had no space before
		c.Out.Width, _ = f.screen.measure()
		err = errors.Join(err, f.screen.draw(nil), c.Out.Lines(c.flowTree(&f.last, c.Out.Columns(), flowLines,
			time.Now())))
	}
	return f.last, err
}

// follow shows what happens until there is nothing more to follow.
func (f *flowFollower) follow(ctx context.Context, after int64, interrupt func() (string, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys := make(chan os.Signal, 1)
	signal.Notify(keys, os.Interrupt)
	defer signal.Stop(keys)
	updates, done := make(chan client.Update), make(chan error, 1)
	go func() { done <- watchFlow(ctx, f.api, f.id, after, updates) }()
	tick := time.NewTicker(flowTick)
	defer tick.Stop()
	for {
		var err error
		select {
		case u := <-updates:
			err = f.receive(&u)
		case <-f.next:
			// the watch reports a final error
			if err = f.fetch(ctx); job.KindOf(err) == job.Unavailable && ctx.Err() == nil {
				f.next, err = time.After(flowPause), nil
			}
		case <-tick.C:
			err = f.redraw()
		case <-keys:
			if interrupt == nil {
				return errors.Join(f.fetch(ctx), errLeft)
			}
			f.status, err = interrupt()
			interrupt = nil
			if f.screen == nil && err == nil {
				f.Note("%s", f.status)
			}
		case err = <-done:
			if err == nil {
				return f.fetch(ctx)
			}
		}
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
	}
}

// watchFlow passes on the updates of a flow until it has ended or pauses.
func watchFlow(ctx context.Context, api *client.Client, id job.ID, after int64, to chan<- client.Update) error {
	err := api.Watch(ctx, id, after, func(u client.Update) error {
		select {
		case to <- u:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if u.Job != nil && paused(&u.Job.Job) {
			return jobs.ErrReached
		}
		return nil
	})
	if errors.Is(err, jobs.ErrReached) {
		return nil
	}
	return err
}

// flowFollower follows a flow for a user.
type flowFollower struct {
	*commands
	api     *client.Client
	id      job.ID
	screen  *screen // nil: lines
	status  string  // a line below the tree
	last    client.Flow
	fetched time.Time
	next    <-chan time.Time  // when the next fetch is due; nil: none is
	asked   string            // how a signal is sent, once it was printed
	states  map[string]string // of the atoms, as printed
	state   lifecycle.State   // of the flow, as printed
}

// receive makes a fetch due, and prints the update in JSON.
func (f *flowFollower) receive(u *client.Update) error {
	if f.next == nil {
		f.next = time.After(max(flowPause-time.Since(f.fetched), 0))
	}
	if f.Out.Mode == cli.ModeJSON && u.Event != nil {
		return f.Message(struct {
			Event *client.Event `json:"event"`
		}{u.Event})
	}
	return nil
}

// fetch gets the flow and shows what is new.
func (f *flowFollower) fetch(ctx context.Context) error {
	f.next = nil
	began := time.Now()
	v, err := f.api.Flow(ctx, f.id, false)
	if err != nil {
		return err
	}
	f.last, f.fetched = v, time.Now()
	if took := time.Since(began); took > flowPause {
		f.fetched = f.fetched.Add(2 * took) // a large flow is fetched less often
	}
	if f.screen != nil {
		f.noteAwaits(&v)
		return f.redraw()
	}
	err = f.printChanges(&v)
	f.noteAwaits(&v)
	return err
}

// noteAwaits states once how a flow in this process gets a signal: no other process reaches it while it runs.
func (f *flowFollower) noteAwaits(v *client.Flow) {
	if f.asked != "" && f.status == f.asked && len(v.Awaits) == 0 {
		f.status = ""
	}
	if f.Local == "" || f.asked != "" || len(v.Awaits) == 0 || v.Job.Ended || paused(&v.Job.Job) || f.status != "" {
		return
	}
	f.asked = fmt.Sprintf("to send it the signal %s: Ctrl-C lets it pause, and prints the command", v.Awaits[0])
	f.status = f.asked
	if f.screen == nil {
		f.Note("%s", f.status)
	}
}

// redraw draws the tree in its current state.
func (f *flowFollower) redraw() error {
	if f.screen == nil || f.last.Name == "" { // not fetched yet
		return nil
	}
	w, h := f.screen.space()
	if f.status == "" {
		return f.screen.draw(f.flowTree(&f.last, w, h, time.Now()))
	}
	return f.screen.draw(append(f.flowTree(&f.last, w, max(h-1, 1), time.Now()), fit(f.status, w)))
}

// printChanges prints a line for each atom that changed, the oldest change first, and one for the flow.
func (f *flowFollower) printChanges(v *client.Flow) error {
	moved := v.Job.State != f.state
	f.state = v.Job.State
	over := v.Job.Ended || paused(&v.Job.Job)
	if moved && !over {
		if err := f.printFlowLine(v); err != nil {
			return err
		}
	}
	var changed []*client.FlowAtom
	for i := range v.Atoms {
		a := &v.Atoms[i]
		mark := fmt.Sprintf("%s|%d|%d|%s", a.State, max(a.Attempts, a.History), a.Tries, a.Notes())
		before, known := f.states[a.Name]
		f.states[a.Name] = mark
		if mark != before && (known || a.State != flow.Pending) {
			changed = append(changed, a)
		}
	}
	slices.SortStableFunc(changed, func(a, b *client.FlowAtom) int { return changedAt(a).Compare(changedAt(b)) })
	for _, a := range changed {
		if err := f.printAtomLine(a); err != nil {
			return err
		}
	}
	if moved && over {
		return f.printFlowLine(v)
	}
	return nil
}

// changedAt is when an atom entered its state, as far as is known.
func changedAt(a *client.FlowAtom) time.Time {
	if a.Ended.After(a.Began) {
		return a.Ended
	}
	return a.Began
}

func (f *flowFollower) printFlowLine(v *client.Flow) error {
	if f.Out.Mode == cli.ModeJSON {
		return nil // the entries of the history are reported
	}
	return f.Out.Table(nil, [][]string{{"flow", f.Out.When(v.Job.Entered), v.Name, string(v.Job.State), v.Job.Message}})
}

func (f *flowFollower) printAtomLine(a *client.FlowAtom) error {
	if f.Out.Mode == cli.ModeJSON {
		return f.Message(struct {
			Atom *client.FlowAtom `json:"atom"`
		}{a})
	}
	return f.Out.Table(nil, [][]string{{a.Kind, f.Out.When(changedAt(a)), a.Name, string(a.State), a.Notes()}})
}

// endedFlow prints the state of a flow that is no longer followed, and returns the error for the exit code: none for
// SUCCESS and SUSPENDED.
func (c *commands) endedFlow(v *client.Flow) error {
	j := &v.Job
	switch {
	case c.Out.Mode == cli.ModeJSON:
		if err := c.Message(struct {
			Flow *client.Flow `json:"flow"`
		}{v}); err != nil {
			return err
		}
	case c.Out.Mode == cli.ModeTable:
		c.Out.Line("%s", flowSummary(v))
	}
	switch {
	case paused(&j.Job):
		for _, signal := range v.Awaits {
			c.Note("it waits for the signal %s: stagepost flow signal %s %s VALUE%s sends it", signal, j.ID, signal,
				c.Local)
		}
		c.Note("%s is SUSPENDED; stagepost flow resume %s%s goes on with it", j.ID, j.ID, c.Local)
	case j.Ended && j.Outcome != lifecycle.OK:
		if c.Out.Mode != cli.ModeJSON {
			c.printFailures(v)
		}
		return cli.FailedJob{Job: *j}
	}
	return nil
}

// afterFlow returns the command that continues a failed flow.
func (c *commands) afterFlow(j *client.Job) string {
	again := fmt.Sprintf("stagepost flow resume %s%s", j.ID, c.Local)
	if slices.Contains(j.Can["operator"], flow.Run) {
		return again + " tries what failed once more"
	}
	reset := fmt.Sprintf("stagepost flow reset %s --confirm --note WHY%s", j.ID, c.Local)
	if c.Local != "" {
		return reset + ", then " + again + ", begins it anew"
	}
	return reset + " begins it anew"
}

// printFailures prints on standard error which atoms failed, and why.
func (c *commands) printFailures(v *client.Flow) {
	for i := range v.Atoms {
		a := &v.Atoms[i]
		for _, one := range []struct {
			what string
			why  *client.FlowFailure
		}{{"failed", a.Failure}, {"could not be reverted", a.RevertFailure}} {
			if one.why != nil {
				c.Err.Line("  %s %s: %s: %s", a.Name, one.what, one.why.Type, one.why.Message)
			}
		}
	}
}

// flowSummary is one sentence about the state of a flow.
func flowSummary(v *client.Flow) string {
	n := map[lifecycle.State]int{}
	tasks := 0
	for i := range v.Atoms {
		if v.Atoms[i].Kind == string(flow.KindTask) {
			n[v.Atoms[i].State]++
			tasks++
		}
	}
	var parts []string
	for _, s := range []lifecycle.State{
		flow.Success, flow.Ignore, flow.FailureState, flow.Reverted, flow.RevertFailure, flow.Running, flow.Reverting,
		flow.Pending,
	} {
		if n[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[s], s))
		}
	}
	return fmt.Sprintf("%s (%s) is %s: %d %s, %s", v.Name, v.Job.ID, v.Job.State, tasks,
		cli.Plural(int64(tasks), "task", "tasks"), strings.Join(parts, ", "))
}
