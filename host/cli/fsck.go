package hostcli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/host"
)

func (c *commands) fsck() *cobra.Command {
	var f client.Fsck
	cmd := &cobra.Command{
		Use:     "fsck",
		Example: "  stagepost admin fsck --data /srv/stagepost",
		Short:   "Compare records, what is derived from them, and storage",
		Long: `Checks that everything derived from records (queue, counts, parents' counts, keys) agrees with them. With --repair it is made anew from the
records, which are authoritative. The exit code is 1 if faults are left.
` + c.checksOfModules() + `
On a running server the check goes through its API. On a data directory without a server it opens the store itself.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.Actor = cli.Whoami(f.Actor)
			return c.checkup(cmd,
				func(ctx context.Context, api *client.Client) (client.Checkup, error) { return api.Fsck(ctx, f) },
				func(ctx context.Context, d *host.Maintenance) (client.Checkup, error) {
					if err := c.Reasoned(f.Note); f.Repair && err != nil {
						return client.Checkup{}, err
					}
					return d.Fsck(ctx, f)
				})
		},
	}
	cmd.Flags().BoolVar(&f.Repair, "repair", false, "make anew what is wrong")
	cmd.Flags().StringVarP(&f.Note, "note", "m", "", "with --repair: why; is entered in the audit log")
	cmd.Flags().StringVar(&f.Actor, "actor", "", "your name in the audit log; defaults to the login name")
	return cmd
}

// checkup calls the server if one runs, else checks the data directory itself, and prints the result.
func (c *commands) checkup(cmd *cobra.Command, ask func(context.Context, *client.Client) (client.Checkup, error),
	direct func(context.Context, *host.Maintenance) (client.Checkup, error)) error {
	ctx, cancel := c.Patient(cmd)
	defer cancel()
	found, err := withStore(ctx, c, ask, direct)
	if err != nil {
		return err
	}
	if c.Out.Mode == cli.ModeJSON {
		if err := c.Out.JSON(found); err != nil {
			return err
		}
	} else {
		for _, f := range found.Faults {
			c.Out.Line("%s", f)
		}
		rows := [][2]string{{"jobs", strconv.Itoa(found.Jobs)}, {"faults", strconv.Itoa(len(found.Faults))}}
		if found.Objects > 0 {
			rows = append(rows, [2]string{"objects", strconv.Itoa(found.Objects)},
				[2]string{"versions", strconv.Itoa(found.Versions)})
		}
		if found.Repaired > 0 {
			rows = append(rows, [2]string{"repaired", strconv.Itoa(found.Repaired)})
		}
		if err := c.Out.Sheet(rows); err != nil {
			return err
		}
	}
	if !found.Sound {
		return cli.Faults{N: len(found.Faults)}
	}
	return nil
}

// checksOfModules explains what the modules compare.
func (c *commands) checksOfModules() string {
	text := ""
	for _, m := range c.host.Modules {
		if m.CheckDoc != "" {
			text += "\n" + m.CheckDoc + "\n"
		}
	}
	return text
}
