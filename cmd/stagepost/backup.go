package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/client"
)

func (c *cli) backup() *cobra.Command {
	return &cobra.Command{
		Use:   "backup [NAME]",
		Short: "Copy the store while it works",
		Long: `Copies the store, as it is at one moment, to DIR/backups/NAME in the data directory; NAME defaults to the time. It prints the file and its
size. To use a copy, put it as stagepost.db into an empty data directory and start a server there. Payloads and logs are plain files: copy
them as such.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			ctx, cancel := c.patient(cmd)
			defer cancel()
			b, err := withStore(ctx, c,
				func(ctx context.Context, api *client.Client) (client.BackedUp, error) {
					return api.Backup(ctx, client.Backup{Name: name})
				},
				func(ctx context.Context, k *keeper) (client.BackedUp, error) { return k.Backup(ctx, name) })
			if err != nil {
				return err
			}
			if c.out.mode == modeJSON {
				return c.out.json(b)
			}
			return c.out.table([]string{"FILE", "BYTES"}, [][]string{{b.File, strconv.FormatInt(b.Bytes, 10)}})
		},
	}
}
