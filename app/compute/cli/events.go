package computecli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// eventReader prints what the server did with a compute job: the entries of its history in words, and between them what
// its steps logged.
type eventReader struct {
	cli    *commands
	api    *client.Client
	id     job.ID
	offset int64 // in the log
	lines  []client.Line
}

// readEvents prints what the server did with a compute job; with follow it goes on until the job has ended.
func (c *commands) readEvents(ctx context.Context, api *client.Client, id job.ID, follow bool) error {
	r := &eventReader{cli: c, api: api, id: id}
	if follow {
		err := api.Watch(ctx, id, 0, func(u client.Update) error {
			if u.Event == nil {
				return nil
			}
			return r.next(ctx, u.Event)
		})
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return errors.Join(err, r.rest(ctx))
	}
	for seq := int64(0); ; {
		const page = 1000
		entries, err := api.History(ctx, id, seq, page)
		if err != nil {
			return err
		}
		for i := range entries {
			if err := r.next(ctx, &entries[i]); err != nil {
				return err
			}
			seq = entries[i].Seq
		}
		if len(entries) < page {
			return r.rest(ctx)
		}
	}
}

// next prints an entry, and before it what was logged before it.
func (r *eventReader) next(ctx context.Context, e *client.Event) error {
	if err := r.load(ctx); err != nil {
		return err
	}
	for len(r.lines) > 0 && r.lines[0].Time.Before(e.At) {
		if err := r.cli.LogLine(&r.lines[0]); err != nil {
			return err
		}
		r.lines = r.lines[1:]
	}
	return r.cli.eventLine(e)
}

// load reads on in the log.
func (r *eventReader) load(ctx context.Context) error {
	for {
		chunk, err := r.api.Log(ctx, r.id, r.offset, 0)
		if err != nil {
			return err
		}
		r.offset, r.lines = chunk.Next, append(r.lines, chunk.Lines...)
		if !chunk.More {
			return nil
		}
	}
}

// rest prints what was logged last.
func (r *eventReader) rest(ctx context.Context) error {
	if err := r.load(ctx); err != nil {
		return err
	}
	for i := range r.lines {
		if err := r.cli.LogLine(&r.lines[i]); err != nil {
			return err
		}
	}
	return nil
}

// eventLine prints an entry of a history: when, which event, the state that it led to, in words, who and why.
func (c *commands) eventLine(e *client.Event) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Message(struct {
			Event *client.Event `json:"event"`
		}{e})
	}
	said := strings.TrimSuffix(eventWords(e), ".") + jobs.BecauseOf(e)
	// a person took the timer's transition: its sentence is not what happened, and the note names him
	early := e.Actor != "" && e.Event == compute.Clean
	switch {
	case early:
		said = "Its files are removed" + jobs.BecauseOf(e)
	case e.Actor != "":
		said += fmt.Sprintf(" (%s, %s)", e.By.String(), e.Actor)
	}
	if c.Out.Mode == cli.ModeTable {
		c.Out.Line("%s  %-8s  %-10s  %s", e.At.Local().Format(time.TimeOnly), e.Event, e.To,
			strings.TrimSpace(said))
		return nil
	}
	stamp := e.At.UTC().Format("2006-01-02T15:04:05.000Z")
	_, err := fmt.Fprintln(c.Out,
		strings.Join([]string{stamp, cli.Clean(string(e.Event)), cli.Clean(string(e.To)),
			cli.Clean(strings.TrimSpace(said))}, "\t"))
	return err
}

// eventWords gives the sentence of the lifecycle for what happened. A server of another version may have transitions
// that this program does not know.
func eventWords(e *client.Event) string {
	if e.From == "" {
		return "It was handed in."
	}
	a, _ := compute.JobLife.Transition(e.From, e.Event)
	return a.Doc
}
