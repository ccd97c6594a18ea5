package main

import "github.com/spf13/cobra"

func (c *cli) release() *cobra.Command {
	var a act
	var s scope
	cmd := &cobra.Command{
		Use:   "release [ID...]",
		Short: "Let held jobs go on: single ones, or all of a scope",
		Long: `With ids it causes the event release on these jobs. With a scope it ends the hold that was put on exactly that scope, and prints the holds
that are left.`,
		Example:           "  stagepost release --group maps\n  stagepost release bat_01J9...",
		ValidArgsFunction: c.completeIDs,
		Args:              cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			of, given, err := s.scope()
			switch {
			case err != nil:
				return err
			case given == (len(args) > 0):
				return usagef("either ids or a scope")
			case !given:
				return c.causeAll(cmd, "release", args, a.body())
			}
			ctx, cancel := c.patient(cmd)
			defer cancel()
			api, err := c.api()
			if err != nil {
				return err
			}
			holds, err := api.Release(ctx, of)
			return c.printHolds(holds, err)
		},
	}
	a.bind(cmd)
	s.bind(cmd)
	c.completeNames(cmd)
	return cmd
}
