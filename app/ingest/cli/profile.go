package ingestcli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
)

func (c *commands) profile() *cobra.Command {
	return cli.Group("profile", "List and check profiles, and read them again",
		`A profile is a YAML file with the rules of a collection: its owner, its storage locations, its notifications. The server
reads the profile directory (setting ingest.profiles) when it starts and whenever it changes. A valid set replaces the
one before as a whole. A set with mistakes changes nothing, and stagepost ingest profile list, /healthz and the log
report it.`,
		"  stagepost ingest profile check ./profiles\n  stagepost ingest profile list",
		c.profileCheck(), c.profileList(), c.profileShow(), c.profileReload(), c.profileSchema())
}

func (c *commands) profileSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of profile files",
		Long: `Prints the JSON Schema (Draft 2020-12) that profile files are checked against. With it, editors complete keys and show mistakes while you type;
docs/profile.schema.json is the same.`,
		Example: "  stagepost ingest profile schema > profile.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := c.Out.Write(profile.Schema())
			return err
		},
	}
}

func (c *commands) profileCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [DIR|FILE...]",
		Short: "Check profile files, without a server",
		Long: `Checks profile files and prints all mistakes, for which a server refuses them, with exit code 1, and warnings, which change nothing:
storage locations that cannot be reached or are spelled in two ways, a collection with two owners, receivers that are called without TLS.

Without arguments it checks the profile directory of the data directory. Mistakes show the line; what may be secret in it is ***.`,
		Example: "  stagepost ingest profile check\n  stagepost ingest profile check new/maps.yaml && cp " +
			"new/maps.yaml /etc/stagepost/profiles/",
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			data, err := filepath.Abs(c.Settings.Data)
			if err != nil {
				return err
			}
			set, err := checkProfiles(args, c.settings.ProfileDir(data))
			var mistakes profile.Mistakes
			if err != nil && !errors.As(err, &mistakes) {
				return err
			}
			var warnings profile.Mistakes
			if set != nil {
				warnings = profile.Lint(set, data)
			}
			if err := c.printMistakes(set, mistakes, warnings); err != nil {
				return err
			}
			if len(mistakes) > 0 {
				return cli.Faults{N: len(mistakes)}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&c.settings.Profiles, "ingest-profiles", "",
		"directory of ingest profiles; defaults to profiles in the data directory")
	return cmd
}

// checkProfiles reads the files and the files of the directories that are named.
func checkProfiles(args []string, standard string) (*profile.Set, error) {
	if len(args) == 0 {
		return profile.Load(standard)
	}
	var files []string
	for _, name := range args {
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, name)
			continue
		}
		inside, err := profile.Files(name)
		if err != nil {
			return nil, err
		}
		files = append(files, inside...)
	}
	return profile.CheckFiles(files...)
}

// checkedProfiles is what a check gives as JSON.
type checkedProfiles struct {
	Valid    bool             `json:"valid"`
	Profiles []string         `json:"profiles"`
	Mistakes profile.Mistakes `json:"mistakes"`
	Warnings profile.Mistakes `json:"warnings"`
}

// printMistakes prints what a check found: in a pipe one line each, file:line:column, mistake or warning, key, text; on
// a terminal with the line.
func (c *commands) printMistakes(set *profile.Set, mistakes, warnings profile.Mistakes) error {
	if c.Out.Mode == cli.ModeJSON {
		all := checkedProfiles{Valid: set != nil, Profiles: []string{},
			Mistakes: append(profile.Mistakes{}, mistakes...), Warnings: append(profile.Mistakes{}, warnings...)}
		if set != nil {
			all.Profiles = set.IDs()
		}
		return c.Out.JSON(all)
	}
	// never both: warnings are for valid profiles
	for word, all := range map[string]profile.Mistakes{"mistake": mistakes, "warning": warnings} {
		for _, m := range all {
			if c.Out.Mode == cli.ModePlain {
				row := [][]string{{m.Position(), word, m.Key, m.Text}}
				if err := c.Out.Table(nil, row); err != nil {
					return err
				}
				continue
			}
			c.Out.Line("%s: %s", word, m.Error())
			for line := range strings.Lines(m.Excerpt()) {
				// never wrapped: the caret stands below its column
				fmt.Fprintln(c.Out, cli.Clean(strings.TrimRight(line, "\n")))
			}
		}
	}
	if c.Out.Mode == cli.ModeTable && set != nil {
		c.Out.Line("valid: %s", strings.Join(set.IDs(), ", "))
	}
	return nil
}

func (c *commands) profileList() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the profiles of the server",
		Example: "  stagepost ingest profile list",
		Args:    cobra.NoArgs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, _ []string) error {
			all, err := api.Profiles(ctx)
			if err != nil {
				return err
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(all)
			}
			if err := c.printProfiles(all.Profiles); err != nil {
				return err
			}
			if s := all.Status; s != nil && s.Fault != "" {
				c.Note("since %s the files in %s have mistakes; the profiles above, of before, are in force:",
					s.Since.Local().Format(time.DateTime), s.Dir)
				for line := range strings.Lines(s.Fault) {
					c.Note("  %s", strings.TrimSpace(line))
				}
			}
			return nil
		}),
	}
}

// printProfiles prints profiles. Columns in a pipe: id, collection, owner, storage, webhooks, file, description.
func (c *commands) printProfiles(all []client.Profile) error {
	rows := make([][]string, len(all))
	for i, p := range all {
		storage, hooks := strings.Join(p.Storage, ","), strings.Join(p.Webhooks, ",")
		if rows[i] = []string{p.ID, p.Collection, p.Owner, hooks, storage, p.Description}; c.Out.Mode == cli.ModePlain {
			rows[i] = []string{p.ID, p.Collection, p.Owner, storage, hooks, p.File, p.Description}
		}
	}
	return c.Out.Rows([]string{"ID", "COLLECTION", "OWNER", "WEBHOOKS", "STORAGE", "DESCRIPTION"}, rows, 3, nil)
}

func (c *commands) profileShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show every value of a profile, and where it came from",
		Long: "Shows every value of a profile as the server has it, those that its file leaves out " +
			"included. Secrets are ***.",
		Example:           "  stagepost ingest profile show maps",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeProfiles,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, args []string) error {
			p, err := api.Profile(ctx, args[0])
			if err != nil {
				return err
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(p)
			}
			rows := make([][]string, len(p.Values))
			for i, v := range p.Values {
				rows[i] = []string{v.Key, v.Value, v.Origin}
			}
			return c.Out.Table([]string{"KEY", "VALUE", "ORIGIN"}, rows)
		}),
	}
}

func (c *commands) profileReload() *cobra.Command {
	var actor, note string
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Read the profile directory again, now",
		Long: `The server notices changes by itself, usually within a second; on disks without notifications within half a minute. This command makes it read the files now and
prints the changes. A directory with mistakes changes nothing.`,
		Example: "  stagepost ingest profile reload --note 'new receiver'",
		Args:    cobra.NoArgs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, _ []string) error {
			change, err := api.ReloadProfiles(ctx, client.ReloadProfiles{Actor: cli.Whoami(actor), Note: note})
			if err != nil {
				return err
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(change)
			}
			var rows [][]string
			for _, one := range []struct {
				word string
				ids  []string
			}{{"added", change.Added}, {"changed", change.Changed}, {"removed", change.Removed}} {
				for _, id := range one.ids {
					rows = append(rows, []string{one.word, id})
				}
			}
			if len(rows) == 0 {
				return c.Out.None("the profiles are as they were")
			}
			return c.Out.Table([]string{"CHANGE", "PROFILE"}, rows)
		}),
	}
	cli.Audited(cmd, &note, &actor)
	return cmd
}
