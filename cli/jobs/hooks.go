package jobs

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/quantity"
)

// HookLog is the delivery log of an application, for its command hooks.
type HookLog struct {
	Group string // of commands, to which hooks belongs
	Key   string // of a notification, for examples
	Job   string // an id of a job, for examples
	Long  string // the first sentence of the help: who is notified of what

	List   func(*client.Client, context.Context, client.HookQuery) (client.Hooks, error)
	One    func(*client.Client, context.Context, string) (client.Hook, error)
	Replay func(*client.Client, context.Context, client.ReplayHooks) ([]string, error)
}

// Hooks is the command hooks of an application: it lists, shows and replays notifications. The application adds ping.
func (c *Commands) Hooks(l HookLog, ping *cobra.Command) *cobra.Command {
	var q client.HookQuery
	var of string
	var pages cli.Pages
	cmd := &cobra.Command{
		Use:   "hooks",
		Short: "List notifications to webhooks, newest first",
		Long: l.Long + ` Each notification is sent until it is accepted, with longer and longer pauses,
at most setting attempts times; an answer 410 ends it at once. Every attempt has the same id, also of a replay. Receivers must accept the same id twice, and
notifications in any order.`,
		Example: fmt.Sprintf("  stagepost %[1]s hooks --status abandoned\n  stagepost %[1]s hooks --job %[2]s\n"+
			"  stagepost %[1]s hooks replay --failed --since 2026-05-04T12:00:00Z --note 'receiver is back'",
			l.Group, l.Job),
		Args: cobra.NoArgs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, cmd *cobra.Command, _ []string) error {
			if err := c.CheckPages(cmd, &pages); err != nil {
				return err
			}
			q.Job = job.ID(of)
			if err := c.Resolve(ctx, api, &q.Job); err != nil {
				return err
			}
			fetch := func(after string, limit int) ([]client.Hook, string, error) {
				q.After, q.Limit = after, limit
				page, err := l.List(api, ctx, q)
				return page.Hooks, page.Next, err
			}
			return cli.ListPages(ctx, pages, fetch, c.PrintHooks)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&of, "job", "", "only of this batch or job")
	f.StringVar(&q.Status, "status", "", "only with this status: pending, delivered, abandoned")
	pages.Bind(cmd, 50)
	c.CompleteNames(cmd)
	c.Complete(cmd, "status", "pending", "delivered", "abandoned")
	cmd.AddCommand(c.hooksShow(l), c.hooksReplay(l), ping)
	return cmd
}

// hookKey completes the key of a notification whose id of a job is short.
func (c *Commands) hookKey(ctx context.Context, api *client.Client, key string) (string, error) {
	name, rest, ok := strings.Cut(key, "/")
	if !ok || strings.Contains(name, "_") {
		return key, nil
	}
	id, err := c.JobID(ctx, api, name)
	return string(id) + "/" + rest, err
}

// PrintHooks prints a list of notifications. Columns in a pipe: key, type, host, attempts, status, created, next
// attempt, error.
func (c *Commands) PrintHooks(hooks []client.Hook, more bool) error {
	err := cli.List(c.Out, hooks, "no notification matches", "KEY|STATUS|TRIES|AGE|NEXT|ERROR",
		func(h *client.Hook) []string {
			tries, created, due := strconv.Itoa(h.Attempts), c.Out.When(h.Created), c.Out.When(h.Due)
			if c.Out.Mode == cli.ModePlain {
				return []string{h.Key, h.Type, h.Host, tries, h.Status, created, due, h.Error}
			}
			id, rest, _ := strings.Cut(h.Key, "/")
			return []string{c.Out.ID(job.ID(id)) + "/" + rest, h.Status, tries, created, due, h.Error}
		})
	c.Out.More(len(hooks), more)
	return err
}

func (c *Commands) hooksShow(l HookLog) *cobra.Command {
	return &cobra.Command{
		Use:     "show KEY",
		Short:   "Show a notification: its attempts and what is sent",
		Example: "  stagepost " + l.Group + " hooks show " + l.Key,
		Args:    cobra.ExactArgs(1),
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, args []string) error {
			key, err := c.hookKey(ctx, api, args[0])
			if err != nil {
				return err
			}
			h, err := l.One(api, ctx, key)
			if err != nil {
				return err
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(h)
			}
			pairs := [][2]string{
				{"key", h.Key}, {"type", h.Type}, {"job", string(h.Job)}, {"profile", h.Profile}, {"webhook",
					h.Hook}, {"host", h.Host},
				{"status", h.Status}, {"attempts", strconv.Itoa(h.Attempts)}, {"created",
					c.Out.Moment(h.Created)}, {"next try", c.Out.Moment(h.Due)},
				{"error", h.Error},
			}
			for _, t := range h.Tried {
				text := "taken"
				if t.Error != "" {
					text = t.Error
				}
				pairs = append(pairs, [2]string{"try", fmt.Sprintf("%s, %d ms: %s", c.Out.Moment(t.At), t.Took, text)})
			}
			return c.Out.Sheet(append(pairs, [2]string{"payload", string(h.Payload)}))
		}),
	}
}

func (c *Commands) hooksReplay(l HookLog) *cobra.Command {
	var b client.ReplayHooks
	var since string
	cmd := &cobra.Command{
		Use:   "replay KEY... | --failed [--since TIME]",
		Short: "Send notifications again, under the ids they had",
		Long: `Sends notifications again that were delivered or abandoned: those of the keys, or with --failed all that were abandoned. Each gets all its attempts again.
It prints their keys. The reason is entered in the audit log.`,
		Example: fmt.Sprintf("  stagepost %[1]s hooks replay %[2]s --note 'their database was lost'\n"+
			"  stagepost %[1]s hooks replay --failed --since 2026-05-04T12:00:00Z --note 'receiver is back'",
			l.Group, l.Key),
		Args: cobra.ArbitraryArgs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, args []string) error {
			b.Keys, b.Actor = args, cli.Whoami(b.Actor)
			switch {
			case b.Note == "":
				return cli.Usagef("a replay needs a reason: --note WHY")
			case b.Failed == (len(args) > 0):
				return cli.Usagef("either keys or --failed")
			case since != "" && !b.Failed:
				return cli.Usagef("--since is for --failed")
			}
			if since != "" {
				var err error
				if b.Since, err = cli.Past(since); err != nil {
					return cli.Usagef("--since: %w", err)
				}
			}
			for i := range b.Keys {
				var err error
				if b.Keys[i], err = c.hookKey(ctx, api, b.Keys[i]); err != nil {
					return err
				}
			}
			keys, err := l.Replay(api, ctx, b)
			if err != nil {
				return err
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(client.ReplayedHooks{Keys: keys})
			}
			rows := make([][]string, len(keys))
			for i, key := range keys {
				rows[i] = []string{key}
			}
			if len(rows) == 0 {
				return c.Out.None("none was abandoned: nothing is sent again")
			}
			if err := c.Out.Table([]string{"KEY"}, rows); err != nil {
				return err
			}
			if c.Out.Mode == cli.ModeTable {
				c.Out.Line("due again: %d", len(keys))
			}
			return nil
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&b.Failed, "failed", false, "all that were abandoned")
	f.StringVar(&since, "since", "", "with --failed: only those written at this time or later")
	cli.Audited(cmd, &b.Note, &b.Actor)
	return cmd
}

// PrintPings prints what became of pings. It fails if one was not accepted. Columns in a pipe: webhook, host, id, time
// in milliseconds, result.
func (c *Commands) PrintPings(pings []client.Ping) error {
	failed, rows := 0, make([][]string, len(pings))
	for i, p := range pings {
		status := "taken"
		if p.Error != "" {
			status = p.Error
			failed++
		}
		rows[i] = []string{p.Hook, p.Host, p.ID, strconv.FormatInt(p.Took, 10), status}
		if c.Out.Mode == cli.ModeTable {
			rows[i] = []string{p.Hook, p.Host,
				quantity.FormatDuration(time.Duration(p.Took) * time.Millisecond), status}
		}
	}
	var err error
	if c.Out.Mode == cli.ModeJSON {
		err = c.Out.JSON(pings)
	} else {
		err = c.Out.Table([]string{"WEBHOOK", "HOST", "TOOK", "RESULT"}, rows)
	}
	if err != nil || failed == 0 {
		return err
	}
	return fmt.Errorf("not taken: %d of %d", failed, len(pings))
}
