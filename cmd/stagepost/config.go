package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
)

func (c *cli) config() *cobra.Command {
	var origin bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show every setting with its value, and where it came from",
		Long: `Shows every setting with the value that counts. With --origin also where it came from: a flag, the environment, a line of the configuration file
or the default; the first of these wins. Secrets are shown as ***. docs/config.md explains the settings. It takes the flags of serve, to show what they
would do.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return c.showConfig(origin) },
	}
	cmd.Flags().BoolVar(&origin, "origin", false, "also where each value came from")
	c.settings.bind(cmd.Flags(), "serve")
	cmd.AddCommand(c.checkConfig())
	return cmd
}

func (c *cli) showConfig(origin bool) error {
	if c.out.mode == modeJSON {
		type one struct {
			Name   string `json:"name"`
			Value  string `json:"value"`
			Origin string `json:"origin"`
		}
		all := []one{}
		for _, s := range c.settings.all() {
			all = append(all, one{s.Name, s.shown(), c.settings.Origin[s.Name]})
		}
		return c.out.json(all)
	}
	var rows [][]string
	for _, s := range c.settings.all() {
		row := []string{s.Name, s.shown()}
		if origin {
			row = append(row, c.settings.Origin[s.Name])
		}
		rows = append(rows, row)
	}
	heading := []string{"SETTING", "VALUE", "ORIGIN"}
	if !origin {
		heading = heading[:2]
	}
	return c.out.table(heading, rows)
}

func (c *cli) checkConfig() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration file without using it",
		Long: `Reads a configuration file as a server would and names every mistake with its line: names that are no settings, values that are not what their setting
takes. The exit code is 2 if there is one.`,
		Example: "  stagepost config check /etc/stagepost/stagepost.yaml",
		Args:    cobra.ExactArgs(1),
		// The settings of this call are not read: a file that is in force must not keep another from being checked.
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return c.out.use(cmd.Flag("output").Value.String()) },
		RunE: func(_ *cobra.Command, args []string) error {
			n, err := checkFile(args[0])
			if err != nil {
				return usage(err)
			}
			if c.out.mode == modeJSON {
				return c.out.json(map[string]int{"settings": n})
			}
			c.out.line("%s: %d settings, no mistakes", args[0], n)
			return nil
		},
	}
}

// checkFile reads a configuration file and gives how many settings it makes. The error names every mistake.
func checkFile(name string) (int, error) {
	entries, err := readEntries(name)
	if err != nil {
		return 0, err
	}
	s := newSettings()
	all := s.all()
	var mistakes []error
	for _, e := range entries {
		i := slices.IndexFunc(all, func(one setting) bool { return one.Name == e.Name })
		if i < 0 {
			mistakes = append(mistakes, s.unknown(name, e))
		} else if err := all[i].check(e.Text); err != nil {
			mistakes = append(mistakes, fmt.Errorf("%s:%d: %w", name, e.Line, err))
		}
	}
	return len(entries), errors.Join(mistakes...)
}
