package jobs

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
)

// workers lists the workers, and drains and resumes one.
func (c *Commands) workers() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "workers",
		Short: "The workers: of the server, on other machines, and agents",
		Long: `Lists the workers that are known to the server: its own slots, workers elsewhere that claim jobs (stagepost work and programs of
others), and agents. A worker is idle, busy, draining (it takes no jobs, by stagepost workers drain), or silent:
it has sent nothing for longer than its requests are apart, and its jobs go to others when their leases expire.

Known are the workers that sent requests to this server since it started and within the last day. Several servers on PostgreSQL announce their slots,
workers and agents to each other.`,
		Example: "  stagepost workers\n  stagepost workers drain lab-1 --note 'new graphics card'\n" +
			"  stagepost workers resume lab-1",
		Args: cobra.NoArgs,
		RunE: c.Requests(func(ctx context.Context, server *client.Client, _ *cobra.Command, _ []string) error {
			all, err := server.Workers(ctx)
			if err != nil {
				return err
			}
			return c.printWorkers(all)
		}),
	}
	cmd.AddCommand(c.actOnWorker("drain", "Let a worker finish its jobs and take no new ones",
		"Restarts of worker and server change nothing: stagepost workers resume ends it.",
		(*client.Client).DrainWorker),
		c.actOnWorker("resume", "Let a drained worker take jobs again", "", (*client.Client).ResumeWorker))
	return cmd
}

func (c *Commands) actOnWorker(name, short, more string,
	act func(*client.Client, context.Context, string, api.WorkerDrain) ([]api.WorkerInfo, error)) *cobra.Command {
	var d api.WorkerDrain
	cmd := &cobra.Command{
		Use: name + " NAME", Short: short, Long: strings.TrimSpace(short + ". " + more),
		Example: "  stagepost workers " + name + " lab-1", Args: cobra.ExactArgs(1),
		RunE: c.Requests(func(ctx context.Context, server *client.Client, _ *cobra.Command, args []string) error {
			d.Actor = cli.Whoami(d.Actor)
			all, err := act(server, ctx, args[0], d)
			if err != nil {
				return err
			}
			return c.printWorkers(all)
		}),
	}
	cmd.Flags().StringVarP(&d.Note, "note", "m", "", "why; it is shown in the audit log")
	cmd.Flags().StringVar(&d.Actor, "actor", "", "your name; defaults to the login name")
	return cmd
}

func (c *Commands) printWorkers(all []api.WorkerInfo) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(all)
	}
	if len(all) == 0 {
		return c.Out.None("no worker of that name has sent a request")
	}
	rows := [][]string{}
	for i := range all {
		w := &all[i]
		jobs := fmt.Sprint(max(w.Jobs, len(w.Running)))
		if w.Slots > 0 {
			jobs += fmt.Sprintf("/%d", w.Slots)
		}
		rows = append(rows, []string{w.Name, w.State, jobs, c.Out.When(w.Seen), w.Version, kindsOf(w),
			strings.Join(w.Labels, " ")})
	}
	return c.Out.Rows([]string{"NAME", "STATE", "JOBS", "SEEN", "VERSION", "KINDS", "LABELS"}, rows, 2, nil)
}

// kindsOf lists the kinds of a worker, each once.
func kindsOf(w *api.WorkerInfo) string {
	var kinds []string
	for _, p := range w.From {
		if n := len(kinds); n == 0 || kinds[n-1] != string(p.Kind) {
			kinds = append(kinds, string(p.Kind))
		}
	}
	return strings.Join(kinds, " ")
}
