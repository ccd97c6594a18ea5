package hostcli

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/internal/build"
)

func (c *commands) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Example: "  stagepost version -o json", Short: "Show the version of this program",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			revision := ""
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						revision = s.Value
					}
				}
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(map[string]string{
					"version": build.Version(), "revision": revision, "go": runtime.Version(),
					"platform": runtime.GOOS + "/" + runtime.GOARCH,
				})
			}
			return c.Out.Sheet([][2]string{
				{"stagepost", build.Version()}, {"revision", revision}, {"go", runtime.Version()},
				{"platform", runtime.GOOS + "/" + runtime.GOARCH},
			})
		},
	}
}
