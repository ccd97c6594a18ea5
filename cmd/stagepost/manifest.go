package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/job"
)

func (c *cli) manifest() *cobra.Command {
	return &cobra.Command{
		Use:   "manifest ID",
		Short: "Print the manifest of an ingest job or batch as it was received",
		Long: `Prints the manifest of an ingest job or batch as it was received, wherever it is by now. In a pipe it comes byte for byte; on a terminal without
control characters.`,
		Example:           "  stagepost manifest ing_01J9... > object.checkm",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeIDs,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ctx, cancel := c.patient(cmd)
			defer cancel()
			api, err := c.api()
			if err != nil {
				return err
			}
			text, err := api.Manifest(ctx, job.ID(args[0]))
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, text.Close()) }()
			if !c.out.terminal {
				_, err = io.Copy(c.out, text)
				return err
			}
			in := bufio.NewReader(text)
			for {
				line, err := in.ReadString('\n')
				if line != "" {
					fmt.Fprintln(c.out, clean(line))
				}
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return err
				}
			}
		},
	}
}
