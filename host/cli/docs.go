package hostcli

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/host/cli/reference"
	"github.com/stagepost/stagepost/server"
)

// docs writes the pages that are made from the program: cli.md, config.md and api.md; or the description of the API.
func (c *commands) docs() *cobra.Command {
	description := false
	cmd := &cobra.Command{
		Use: "docs DIR", Short: "Write cli.md, config.md and api.md, or openapi.json", Hidden: true,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all := reference.Pages(cmd.Root(), c.host)
			if description {
				text, err := json.Marshal(server.Describe(c.host.Routes()))
				if err != nil {
					return err
				}
				all = map[string]string{"openapi.json": string(text)}
			}
			for name, text := range all {
				if err := os.WriteFile(filepath.Join(args[0], name), []byte(text), 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&description, "openapi", false, "write openapi.json, the description of the HTTP API, instead")
	return cmd
}
