package ingestcli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// completeBatches offers the newest batches.
func (c *commands) completeBatches(cmd *cobra.Command, _ []string, toComplete string) ([]string,
	cobra.ShellCompDirective) {
	return c.CompleteJobs(cmd, toComplete, job.Query{Kinds: []job.Kind{"ingest.batch"}, Limit: 200})
}

// completeProfiles offers the server's profiles.
func (c *commands) completeProfiles(cmd *cobra.Command, _ []string, toComplete string) ([]string,
	cobra.ShellCompDirective) {
	return c.Ask(cmd, toComplete, func(ctx context.Context, api *client.Client) ([]string, error) {
		all, err := api.Profiles(ctx)
		ids := make([]string, len(all.Profiles))
		for i, p := range all.Profiles {
			ids[i] = p.ID + "\t" + p.Description
		}
		return ids, err
	})
}

// completePlaces offers the storage locations of the server's profiles.
func (c *commands) completePlaces(cmd *cobra.Command, _ []string, toComplete string) ([]string,
	cobra.ShellCompDirective) {
	return c.Ask(cmd, toComplete, func(ctx context.Context, api *client.Client) ([]string, error) {
		all, err := api.Profiles(ctx)
		var places []string
		for _, p := range all.Profiles {
			places = append(places, p.Storage...)
		}
		slices.Sort(places)
		return places, err
	})
}
