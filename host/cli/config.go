package hostcli

import (
	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
)

func (c *commands) config() *cobra.Command {
	var origin bool
	cmd := &cobra.Command{
		Use:     "config",
		Example: "  stagepost admin config --origin",
		Short:   "Show every setting with its value, and where it came from",
		Long: `Shows every setting with the value in effect. With --origin also where it came from: a flag, the environment, a line of the configuration file
or the default; the first of these wins. Secrets are shown as ***. docs/config.md explains the settings. It takes the flags of serve, to show what they
would do.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return c.showConfig(origin) },
	}
	cmd.Flags().BoolVar(&origin, "origin", false, "also where each value came from")
	c.Settings.Bind(cmd.Flags(), "serve")
	cmd.AddCommand(c.checkConfig())
	return cmd
}

func (c *commands) showConfig(origin bool) error {
	if c.Out.Mode == cli.ModeJSON {
		type one struct {
			Name   string `json:"name"`
			Value  string `json:"value"`
			Origin string `json:"origin"`
		}
		all := []one{}
		for _, s := range c.Settings.All() {
			all = append(all, one{s.Name, s.Shown(), c.Settings.Origin[s.Name]})
		}
		return c.Out.JSON(all)
	}
	var rows [][]string
	for _, s := range c.Settings.All() {
		row := []string{s.Name, s.Shown()}
		if origin {
			row = append(row, c.Settings.Origin[s.Name])
		}
		rows = append(rows, row)
	}
	heading := []string{"SETTING", "VALUE", "ORIGIN"}
	if !origin {
		heading = heading[:2]
	}
	return c.Out.Table(heading, rows)
}

func (c *commands) checkConfig() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration file without using it",
		Long: `Reads a configuration file as a server would and names every mistake with its line: names that are no settings, values that are not what their setting
takes. The exit code is 2 if there is one. A warning names a directory of backup.dir that a server on this machine would refuse.`,
		Example: "  stagepost admin config check /etc/stagepost/stagepost.yaml",
		Args:    cobra.ExactArgs(1),
		// The settings of this call are not read: a file that is in force must not keep another from being checked.
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return c.Out.Use(cmd.Flag("output").Value.String())
		},
		RunE: func(_ *cobra.Command, args []string) error {
			n, err := c.host.CheckFile(args[0])
			if err != nil {
				return cli.Usage(err)
			}
			if err := c.host.CheckBackupDir(args[0]); err != nil { // the file may be for another machine
				c.Err.Line("warning: on this machine, %v", err)
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(map[string]int{"settings": n})
			}
			c.Out.Line("%s: %d settings, no mistakes", args[0], n)
			return nil
		},
	}
}
