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
	flowLook  = 200 * time.Millisecond // between two checks of the whole flow
	flowTick  = time.Second            // between two drawings of a tree in which nothing but time goes on
	flowLines = 100                    // of the tree that is left standing
)

// errLeft states that somebody stopped following.
var errLeft = errors.New("you left it; it goes on without you")

// paused reports whether a flow stands SUSPENDED for a person. While a worker that found it after a crash still has it,
// it is only passing.
func paused(j *job.Job) bool { return j.State == flow.Suspended && !j.Claimed() }

// followFlow shows what happens to a flow from entry after of its history on, until it has ended or pauses, and gives
// its last view. Ctrl-C ends it with errLeft; interrupt, if given, is called in place of that the first time, and gives
// what to report.
func (c *commands) followFlow(ctx context.Context, api *client.Client, id job.ID, after int64, interrupt func() (string, error)) (client.Flow, error) {
	f := &flowFollower{commands: c, api: api, id: id, states: map[string]string{}}
	if c.Out.Terminal && c.Out.Mode == cli.ModeTable {
		f.screen = newScreen(c.Out)
	}
	err := f.follow(ctx, after, interrupt)
	if f.screen != nil && f.last.Name != "" { // also what had no space before
		c.Out.Width, _ = f.screen.measure()
		err = errors.Join(err, f.screen.draw(nil), c.Out.Lines(c.flowTree(&f.last, c.Out.Columns(), flowLines, time.Now())))
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
			err = f.hear(&u)
		case <-f.next:
			// the watch states when it is final
			if err = f.look(ctx); job.KindOf(err) == job.Unavailable && ctx.Err() == nil {
				f.next, err = time.After(flowLook), nil
			}
		case <-tick.C:
			err = f.redraw()
		case <-keys:
			if interrupt == nil {
				return errors.Join(f.look(ctx), errLeft)
			}
			f.says, err = interrupt()
			interrupt = nil
			if f.screen == nil && err == nil {
				f.Note("%s", f.says)
			}
		case err = <-done:
			if err == nil {
				return f.look(ctx)
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

// watchFlow passes on what is notified of a flow until it has ended or pauses.
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

// flowFollower is somebody who follows a flow.
type flowFollower struct {
	*commands
	api    *client.Client
	id     job.ID
	screen *screen // nil: lines
	says   string  // a line below the tree
	last   client.Flow
	looked time.Time
	next   <-chan time.Time  // of the check that is due; nil: none is
	asked  string            // how a signal is sent, once that was reported
	states map[string]string // of the atoms, as they were reported
	state  lifecycle.State   // of the flow, as it was reported
}

// hear takes an update: it makes a check due, and in JSON is reported as it is.
func (f *flowFollower) hear(u *client.Update) error {
	if f.next == nil {
		f.next = time.After(max(flowLook-time.Since(f.looked), 0))
	}
	if f.Out.Mode == cli.ModeJSON && u.Event != nil {
		return f.Message(struct {
			Event *client.Event `json:"event"`
		}{u.Event})
	}
	return nil
}

// appear fetches the flow and shows what is new.
func (f *flowFollower) look(ctx context.Context) error {
	f.next = nil
	began := time.Now()
	v, err := f.api.Flow(ctx, f.id, false)
	if err != nil {
		return err
	}
	f.last, f.looked = v, time.Now()
	if took := time.Since(began); took > flowLook {
		f.looked = f.looked.Add(2 * took) // a large flow is examined less often
	}
	if f.screen != nil {
		f.tellAwaits(&v)
		return f.redraw()
	}
	err = f.tellChanges(&v)
	f.tellAwaits(&v)
	return err
}

// tellAwaits states once how a signal comes to a flow in this process: no one else reaches it as long as it runs.
func (f *flowFollower) tellAwaits(v *client.Flow) {
	if f.asked != "" && f.says == f.asked && len(v.Awaits) == 0 {
		f.says = ""
	}
	if f.Local == "" || f.asked != "" || len(v.Awaits) == 0 || v.Job.Ended || paused(&v.Job.Job) || f.says != "" {
		return
	}
	f.asked = fmt.Sprintf("to send it the signal %s: Ctrl-C lets it pause, and tells how", v.Awaits[0])
	f.says = f.asked
	if f.screen == nil {
		f.Note("%s", f.says)
	}
}

// redraw draws the tree as it stands now.
func (f *flowFollower) redraw() error {
	if f.screen == nil || f.last.Name == "" { // not appeared yet
		return nil
	}
	w, h := f.screen.room()
	if f.says == "" {
		return f.screen.draw(f.flowTree(&f.last, w, h, time.Now()))
	}
	return f.screen.draw(append(f.flowTree(&f.last, w, max(h-1, 1), time.Now()), fit(f.says, w)))
}

// tellChanges prints a line for each atom that changed, the oldest change first, and one for the flow.
func (f *flowFollower) tellChanges(v *client.Flow) error {
	moved := v.Job.State != f.state
	f.state = v.Job.State
	over := v.Job.Ended || paused(&v.Job.Job)
	if moved && !over {
		if err := f.tellFlow(v); err != nil {
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
		if err := f.tellAtom(a); err != nil {
			return err
		}
	}
	if moved && over {
		return f.tellFlow(v)
	}
	return nil
}

// changedAt is when an atom came to where it stands, as far as is known.
func changedAt(a *client.FlowAtom) time.Time {
	if a.Ended.After(a.Began) {
		return a.Ended
	}
	return a.Began
}

func (f *flowFollower) tellFlow(v *client.Flow) error {
	if f.Out.Mode == cli.ModeJSON {
		return nil // the entries of the history are reported
	}
	return f.Out.Table(nil, [][]string{{"flow", f.Out.When(v.Job.Entered), v.Name, string(v.Job.State), v.Job.Message}})
}

func (f *flowFollower) tellAtom(a *client.FlowAtom) error {
	if f.Out.Mode == cli.ModeJSON {
		return f.Message(struct {
			Atom *client.FlowAtom `json:"atom"`
		}{a})
	}
	return f.Out.Table(nil, [][]string{{a.Kind, f.Out.When(changedAt(a)), a.Name, string(a.State), a.Notes()}})
}

// endedFlow prints how a flow stands that is not followed any more, and gives the error that its exit code is made of:
// none for SUCCESS and SUSPENDED.
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
			c.Note("it waits for the signal %s: stagepost flow signal %s %s VALUE%s sends it", signal, j.ID, signal, c.Local)
		}
		c.Note("%s is SUSPENDED; stagepost flow resume %s%s goes on with it", j.ID, j.ID, c.Local)
	case j.Ended && j.Outcome != lifecycle.OK:
		if c.Out.Mode != cli.ModeJSON {
			c.tellFailures(v)
		}
		return cli.FailedJob{Job: *j}
	}
	return nil
}

// afterFlow states how a flow that failed can go on.
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

// tellFailures states on standard error which atoms failed, and why.
func (c *commands) tellFailures(v *client.Flow) {
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

// flowSummary is one sentence about how a flow stands.
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
		flow.Success, flow.Ignore, flow.FailureState, flow.Reverted, flow.RevertFailure, flow.Running, flow.Reverting, flow.Pending,
	} {
		if n[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[s], s))
		}
	}
	return fmt.Sprintf("%s (%s) is %s: %d %s, %s", v.Name, v.Job.ID, v.Job.State, tasks, cli.Plural(int64(tasks), "task", "tasks"), strings.Join(parts, ", "))
}
