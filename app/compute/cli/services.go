package computecli

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
)

func (c *commands) services() *cobra.Command {
	return &cobra.Command{
		Use: "services", Short: "List the services with what they allow", Example: "  stagepost compute services",
		Args: cobra.NoArgs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, _ []string) error {
			all, err := api.ComputeServices(ctx)
			if err != nil {
				return err
			}
			return cli.List(c.Out, all, "there is no service", "SERVICE|RUNNING|QUEUED|PER USER|AT ONCE|AGENTS",
				func(s *client.ComputeService) []string {
					return []string{s.Name, strconv.FormatInt(s.Running, 10), strconv.FormatInt(s.Queued, 10),
						strconv.Itoa(s.RunsPerUser), strconv.Itoa(s.MaxRuns), strings.Join(s.Agents, ",")}
				})
		}),
	}
}

func (c *commands) agents() *cobra.Command {
	return &cobra.Command{
		Use: "agents", Short: "List the agents and their state", Example: "  stagepost compute agents",
		Args: cobra.NoArgs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, _ []string) error {
			all, err := api.ComputeAgents(ctx)
			if err != nil {
				return err
			}
			return cli.List(c.Out, all, "there is no agent", "AGENT|KIND|STATE|FREE|SERVICES|LABELS|ERROR",
				func(a *client.ComputeAgent) []string {
					state := "up"
					switch {
					case !a.Up:
						state = "down"
					case a.Draining:
						state = "draining"
					}
					return []string{a.Name, a.Kind, state, strconv.Itoa(a.Free) + "/" + strconv.Itoa(a.Slots),
						strings.Join(a.Services, ","), strings.Join(a.Labels, ","), a.Error}
				})
		}),
	}
}
