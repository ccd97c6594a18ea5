package hostcli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
)

func (c *commands) health() *cobra.Command {
	return &cobra.Command{
		Use:   "health",
		Short: "Ask whether the server works",
		Long: `Asks the server whether it works: its store answers and its engine works. The exit code is 0 if so and 1 if not, or if there is no server; 6 if the
time of --timeout has passed. The health check of a container calls this command.`,
		Example: "  stagepost admin health --data /srv/stagepost --timeout 5s",
		Args:    cobra.NoArgs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, _ []string) error {
			h, err := api.Health(ctx)
			if err != nil && h.Status == "" {
				return err
			}
			if c.Out.Mode == cli.ModeJSON {
				return errors.Join(err, c.Out.JSON(h))
			}
			pairs := [][2]string{
				{"status", h.Status}, {"version", h.Version}, {"store", h.Store}, {"location", h.Location},
				{"engine", h.Engine}, {"leader", h.Leader},
				{"kinds", strings.Join(h.Kinds, ", ")},
			}
			for _, w := range h.Warnings {
				pairs = append(pairs, [2]string{"warning", w})
			}
			return errors.Join(err, c.Out.Sheet(pairs))
		}),
	}
}
