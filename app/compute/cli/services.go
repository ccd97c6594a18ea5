package computecli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
)

func (c *commands) services() *cobra.Command {
	return &cobra.Command{
		Use: "services", Short: "List the services with what they allow", Example: "  stagepost compute services",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			api, err := c.API()
			if err != nil {
				return err
			}
			all, err := api.ComputeServices(ctx)
			if err != nil {
				return err
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(all)
			}
			rows := make([][]string, len(all))
			for i, s := range all {
				rows[i] = []string{s.Name, strconv.FormatInt(s.Running, 10), strconv.FormatInt(s.Queued, 10),
					strconv.Itoa(s.RunsPerUser),
					strconv.Itoa(s.MaxRuns), strings.Join(s.Agents, ",")}
			}
			return c.Out.Table([]string{"SERVICE", "RUNNING", "QUEUED", "PER USER", "AT ONCE", "AGENTS"}, rows)
		},
	}
}

func (c *commands) agents() *cobra.Command {
	return &cobra.Command{
		Use: "agents", Short: "List the agents and their state", Example: "  stagepost compute agents",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			api, err := c.API()
			if err != nil {
				return err
			}
			all, err := api.ComputeAgents(ctx)
			if err != nil {
				return err
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(all)
			}
			rows := make([][]string, len(all))
			for i := range all {
				a := &all[i]
				state := "up"
				switch {
				case !a.Up:
					state = "down"
				case a.Draining:
					state = "draining"
				}
				rows[i] = []string{a.Name, a.Kind, state, strconv.Itoa(a.Free) + "/" + strconv.Itoa(a.Slots),
					strings.Join(a.Services, ","), a.Error}
			}
			return c.Out.Table([]string{"AGENT", "KIND", "STATE", "FREE", "SERVICES", "ERROR"}, rows)
		},
	}
}
