package main

import "github.com/spf13/cobra"

func (c *cli) config() *cobra.Command {
	var origin bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show every setting with its value, and where it came from",
		Long: `Shows every setting with the value that counts. With --origin also where it came from: a flag, the environment, the configuration file or the
default; the first of these wins. docs/config.md explains the settings. It takes the flags of serve, to show what they would do.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if c.out.mode == modeJSON {
				type one struct {
					Name   string `json:"name"`
					Value  string `json:"value"`
					Origin string `json:"origin"`
				}
				all := []one{}
				for _, s := range c.settings.all() {
					all = append(all, one{s.Name, s.String(), c.settings.origins[s.Name]})
				}
				return c.out.json(all)
			}
			var rows [][]string
			for _, s := range c.settings.all() {
				row := []string{s.Name, s.String()}
				if origin {
					row = append(row, c.settings.origins[s.Name])
				}
				rows = append(rows, row)
			}
			heading := []string{"SETTING", "VALUE", "ORIGIN"}
			if !origin {
				heading = heading[:2]
			}
			return c.out.table(heading, rows)
		},
	}
	cmd.Flags().BoolVar(&origin, "origin", false, "also where each value came from")
	c.settings.bind(cmd.Flags(), "serve")
	return cmd
}
