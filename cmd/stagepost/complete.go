package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/job"
)

// complete offers fixed words for a flag.
func (c *cli) complete(cmd *cobra.Command, flag string, words ...string) {
	// The error says that the flag does not exist: a program that could never work.
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

// completeNames offers kinds and states, from the program's own tables.
func (c *cli) completeNames(cmd *cobra.Command) {
	var kinds, states []string
	for _, t := range lives() {
		kinds = append(kinds, t.Name())
		for _, s := range t.Stages() {
			if !slices.Contains(states, string(s.State)) {
				states = append(states, string(s.State))
			}
		}
	}
	for flag, words := range map[string][]string{
		"kind": kinds, "state": states, "outcome": {"ok", "failed", "timed-out", "cancelled"}, "as": {"operator", "owner"},
	} {
		if cmd.Flags().Lookup(flag) != nil {
			c.complete(cmd, flag, words...)
		}
	}
}

// completeIDs offers the newest jobs with what they are. It asks the server, for half a second at most.
func (c *cli) completeIDs(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if err := c.settings.load(cmd.Flags(), os.LookupEnv); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	api, err := c.api()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	page, err := api.Jobs(ctx, job.Query{Limit: 200})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var ids []string
	for i := range page.Jobs {
		j := &page.Jobs[i]
		if len(toComplete) <= len(j.ID) && string(j.ID)[:len(toComplete)] == toComplete {
			ids = append(ids, fmt.Sprintf("%s\t%s %s", j.ID, j.Kind, j.State))
		}
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// completeAfterFirst offers ids for all arguments but the first.
func (c *cli) completeAfterFirst(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.completeIDs(cmd, args, toComplete)
}

// completeEvents offers the events that people may cause, then ids.
func (c *cli) completeEvents(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return c.completeIDs(cmd, args, toComplete)
	}
	return humanEvents(), cobra.ShellCompDirectiveNoFileComp
}
