package hostcli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/quantity"
)

func (c *commands) clock() *cobra.Command {
	var confirm bool
	var actor, note string
	cmd := &cobra.Command{
		Use:   "clock [--confirm --note WHY]",
		Short: "Show whether the server accepts its machine's clock, or confirm it",
		Long: `Shows the machine's clock, which time records get, and the last time that the server trusted. While the clock is in doubt nothing is removed by
its age: it was set while the server ran, it is behind, or it is ahead of the time at which the server worked last by more than clock.away.

If the clock is wrong, set it; a doubt ends when the clock agrees with the trusted time again. If it is right, for instance because the server was off for some
days, confirm it. After a jump forward everything that has ended is kept for its full time from the confirmation on. The reason is entered in the audit log.`,
		Example: "  stagepost admin clock\n  stagepost admin clock --confirm --note 'it was off for the holidays'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if confirm && note == "" {
				return cli.Usagef("the clock is confirmed for a reason: --note WHY")
			}
			if !confirm && note != "" {
				return cli.Usagef("--note is for --confirm")
			}
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			api, err := c.API()
			if err != nil {
				return err
			}
			var clock client.Clock
			if confirm {
				clock, err = api.ConfirmClock(ctx, client.ConfirmClock{Note: note, Actor: cli.Whoami(actor)})
			} else {
				clock, err = api.Clock(ctx)
			}
			if err != nil {
				return err
			}
			return c.printClock(&clock)
		},
	}
	cmd.Flags().BoolVar(&confirm, "confirm", false, "trust the clock as it is now")
	cmd.Flags().StringVarP(&note, "note", "m", "", "why; is entered in the audit log")
	cmd.Flags().StringVar(&actor, "actor", "", "your name in the audit log; defaults to the login name")
	return cmd
}

func (c *commands) printClock(clock *client.Clock) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(clock)
	}
	state := "trusted"
	if clock.Doubt != "" {
		state = "in doubt: " + clock.Doubt + " by " +
			quantity.FormatDuration(time.Duration(clock.Seconds)*time.Second) + "; nothing is removed by its age"
	}
	pairs := [][2]string{
		{"clock", state}, {"machine", c.Out.Moment(clock.Wall)}, {"records", c.Out.Moment(clock.Now)},
		{"trusted", c.Out.Moment(clock.Trusted)},
	}
	if clock.Confirmed != nil {
		pairs = append(pairs, [2]string{"confirmed", c.Out.Moment(*clock.Confirmed)})
	}
	if clock.Restart {
		pairs = append(pairs, [2]string{"restart", "records get the machine's time from the next start on"})
	}
	return c.Out.Sheet(pairs)
}
