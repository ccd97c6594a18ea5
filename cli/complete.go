package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Complete offers fixed words for a flag.
func (c *Call) Complete(cmd *cobra.Command, flag string, words ...string) {
	// The only error is a flag that does not exist: a mistake of the program.
	if err := cmd.RegisterFlagCompletionFunc(flag,
		cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

// CompleteNames offers kinds and states, from the program's own tables.
func (c *Call) CompleteNames(cmd *cobra.Command) {
	var kinds []string
	for _, t := range c.Lives {
		kinds = append(kinds, t.Name())
	}
	for flag, words := range map[string][]string{
		"kind": kinds, "state": c.StateNames(), "outcome": {"ok", "failed", "timed-out", "cancelled"},
		"as": {"operator", "owner"}, "event": c.HumanEvents(),
	} {
		if cmd.Flags().Lookup(flag) != nil {
			c.Complete(cmd, flag, words...)
		}
	}
	for flag, ask := range map[string]cobra.CompletionFunc{
		"job": c.CompleteIDs, "group": c.completeGroups, "cause": c.completeCauses,
	} {
		if cmd.Flags().Lookup(flag) != nil {
			// The only error is a flag that does not exist: it does.
			_ = cmd.RegisterFlagCompletionFunc(flag, ask)
		}
	}
}

// completeParts offers what the applications know of the flags of a command and of those below it.
func (c *Call) completeParts(cmd *cobra.Command) {
	for _, p := range c.Parts {
		for flag, words := range p.Words {
			if cmd.Flags().Lookup(flag) != nil {
				// a command's own words stay
				_ = cmd.RegisterFlagCompletionFunc(flag,
					cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
			}
		}
		for flag, ask := range p.Ask {
			if cmd.Flags().Lookup(flag) != nil {
				_ = cmd.RegisterFlagCompletionFunc(flag, ask) // a command's own words stay
			}
		}
	}
	for _, sub := range cmd.Commands() {
		c.completeParts(sub)
	}
}

// Ask offers words of the server that begin with the typed word. It waits for half a second at most.
func (c *Call) Ask(cmd *cobra.Command, toComplete string,
	from func(context.Context, *client.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	const only = cobra.ShellCompDirectiveNoFileComp
	if err := c.Settings.Load(cmd.Flags(), os.LookupEnv); err != nil {
		return nil, only
	}
	api, err := c.API()
	if err != nil {
		return nil, only
	}
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	words, err := from(ctx, api)
	if err != nil {
		return nil, only
	}
	words = slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, toComplete) || w == "" })
	return slices.Compact(words), only
}

// CompleteIDs offers the newest jobs by short ids, or by whole ids after a beginning such as ing_.
func (c *Call) CompleteIDs(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return c.CompleteJobs(cmd, toComplete, job.Query{Limit: 200})
}

// CompleteJobs offers the jobs of a query.
func (c *Call) CompleteJobs(cmd *cobra.Command, toComplete string, q job.Query) ([]string, cobra.ShellCompDirective) {
	return c.Ask(cmd, toComplete, func(ctx context.Context, api *client.Client) ([]string, error) {
		page, err := api.Jobs(ctx, q)
		part := ShortID
		if strings.Contains(toComplete, "_") {
			part = func(id job.ID) string { return string(id) }
		}
		ids := make([]string, len(page.Jobs))
		for i := range page.Jobs {
			j := &page.Jobs[i]
			ids[i] = strings.TrimSpace(fmt.Sprintf("%s\t%s %s %s", part(j.ID), j.Kind, j.State, j.Title))
		}
		return ids, err
	})
}

// completeGroups offers the groups that jobs have.
func (c *Call) completeGroups(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return c.Ask(cmd, toComplete, func(ctx context.Context, api *client.Client) ([]string, error) {
		counts, err := api.Counts(ctx)
		groups := make([]string, len(counts))
		for i, t := range counts {
			groups[i] = t.Group
		}
		slices.Sort(groups)
		return groups, err
	})
}

// completeCauses offers the causes of the newest failures.
func (c *Call) completeCauses(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return c.Ask(cmd, toComplete, func(ctx context.Context, api *client.Client) ([]string, error) {
		page, err := api.Jobs(ctx, job.Query{Outcomes: []lifecycle.Outcome{lifecycle.Failed, lifecycle.TimedOut},
			Limit: 1000})
		var causes []string
		for i := range page.Jobs {
			causes = append(causes, page.Jobs[i].Cause)
		}
		slices.Sort(causes)
		return causes, err
	})
}

// CompleteAfterFirst offers ids for all arguments but the first.
func (c *Call) CompleteAfterFirst(cmd *cobra.Command, args []string, toComplete string) ([]string,
	cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.CompleteIDs(cmd, args, toComplete)
}

// CompleteEvents offers the events that people may cause, then ids.
func (c *Call) CompleteEvents(cmd *cobra.Command, args []string, toComplete string) ([]string,
	cobra.ShellCompDirective) {
	if len(args) > 0 {
		return c.CompleteIDs(cmd, args, toComplete)
	}
	return c.HumanEvents(), cobra.ShellCompDirectiveNoFileComp
}
