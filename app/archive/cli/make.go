package archivecli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
)

// requestFlags are the flags of a request.
type requestFlags struct {
	preset, keep, pack, form, quorum string
	locations                        []string
	sign, backup                     bool
}

func (f *requestFlags) bind(c *commands, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.preset, "preset", "", "named settings of the server's configuration; defaults to default")
	flags.StringVar(&f.keep, "keep", "", "retention: a time such as 10y, or unlimited")
	flags.StringVar(&f.form, "package", "", "form of the package: bag or bag+ocfl")
	flags.StringVar(&f.pack, "pack", "", "file of a bag: tar.gz, zip or none")
	flags.StringVar(&f.quorum, "quorum", "", "locations that must have a copy: all, majority, or a number")
	flags.StringArrayVar(&f.locations, "location", nil, "storage location; may be given again. Defaults to all")
	flags.BoolVar(&f.sign, "sign", true, "have the package stamped by a time-stamp authority")
	flags.BoolVar(&f.backup, "course-backup", false, "archive a backup of the whole course, too")
	c.Complete(cmd, "package", "bag", "bag+ocfl")
	c.Complete(cmd, "pack", "tar.gz", "zip", "none")
}

// request makes a request of the flags and arguments. Flags that are not given leave the settings to the preset.
func (f *requestFlags) request(cmd *cobra.Command, args []string) client.ArchiveRequest {
	r := client.ArchiveRequest{
		Source: args[0], Course: args[1], Activities: args[2:], Preset: f.preset,
		Settings: client.ArchiveSettings{
			Keep: f.keep, Package: f.form, Pack: f.pack, Quorum: f.quorum, Locations: f.locations,
		},
	}
	if cmd.Flags().Changed("sign") {
		r.Settings.Sign = &f.sign
	}
	if cmd.Flags().Changed("course-backup") {
		r.Settings.CourseBackup = &f.backup
	}
	return r
}

func (c *commands) plan() *cobra.Command {
	var f requestFlags
	cmd := &cobra.Command{
		Use:   "plan SOURCE COURSE [ACTIVITY...]",
		Short: "Show what a request would archive, and where",
		Long: `Reads the source and shows what a request would archive: activities with the number of their items, those that are
left out with the reason, the settings after presets, the storage locations, and warnings. Nothing is started or stored.
Sizes are those of the newest archives, as far as there are any.`,
		Example: "  stagepost archive plan campus 5\n  stagepost archive plan campus 5 17 18 --preset exams -o json",
		Args:    cobra.MinimumNArgs(2),
		RunE: c.Requests(func(ctx context.Context, api *client.Client, cmd *cobra.Command, args []string) error {
			p, err := api.PlanArchive(ctx, f.request(cmd, args))
			if err != nil {
				return err
			}
			return c.printPlan(&p)
		}),
	}
	f.bind(c, cmd)
	return cmd
}

func (c *commands) printPlan(p *client.ArchivePlan) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(p)
	}
	if err := c.printActivities(append(slices.Clone(p.Activities), p.Skipped...)); err != nil {
		return err
	}
	size := c.Bytes(p.Bytes)
	switch {
	case c.Out.Mode != cli.ModeTable || p.Unknown == 0:
	case p.Bytes == 0:
		size = "not known before the first archive"
	default:
		size = fmt.Sprintf("at least %s: %d of the activities were never archived", size, p.Unknown)
	}
	keep := "indefinitely"
	if !p.RetainTo.IsZero() {
		keep = "until " + c.Out.Moment(p.RetainTo)
	}
	var where []string
	for _, l := range p.Locations {
		text := l.Name
		if l.Reason != "" {
			text += " (unusable now: " + l.Reason + ")"
		}
		where = append(where, text)
	}
	s := &p.Settings
	pairs := [][2]string{
		{"course", p.Course.Name}, {"package", p.Package}, {"form", s.Package + " " + s.Pack},
		{"items", strconv.Itoa(p.Items)}, {"bytes", size}, {"locations", strings.Join(where, ", ")},
		{"quorum", s.Quorum}, {"kept", keep}, {"signed", yes(s.Sign)}, {"course backup", yes(s.CourseBackup)},
	}
	for _, w := range p.Warnings {
		pairs = append(pairs, [2]string{"warning", w})
	}
	return c.Out.Sheet(pairs)
}

func yes(b *bool) string {
	if b != nil && *b {
		return "yes"
	}
	return "no"
}

func (c *commands) run() *cobra.Command {
	var f requestFlags
	var o client.ArchiveOrder
	var wait bool
	var priority int
	cmd := &cobra.Command{
		Use:   "run SOURCE COURSE [ACTIVITY...]",
		Short: "Archive a course, or some of its activities",
		Long: `Creates a job that archives a course, or the activities that are named by their ids. With --wait it follows the job; the
exit code then is 5 if the job failed. With --key a repetition of the command gives the same job.

In a source of the kind directory, each directory below its root is a course, except those whose names begin with a dot. All files
below a course are archived, hidden files and directories included. Symbolic links and other special files are left out with a warning.`,
		Example: "  stagepost archive run campus 5 --wait\n" +
			"  stagepost archive run campus 5 17 --keep 10y --note 'exam of 12 May' --key exam-17",
		Args: cobra.MinimumNArgs(2),
		RunE: c.Requests(func(ctx context.Context, api *client.Client, cmd *cobra.Command, args []string) error {
			note := o.Note
			o.ArchiveRequest = f.request(cmd, args)
			o.Note, o.Actor = note, cli.Whoami(o.Actor)
			if cmd.Flags().Changed("priority") {
				o.Priority = &priority
			}
			j, err := api.SubmitArchive(ctx, o)
			if err != nil {
				return err
			}
			if !wait {
				return c.PrintOutcome(&j)
			}
			if c.Out.Mode != cli.ModeJSON {
				if err := c.PrintOutcome(&j); err != nil {
					return err
				}
			}
			return c.Follow(ctx, j.ID)
		}),
	}
	f.bind(c, cmd)
	flags := cmd.Flags()
	flags.BoolVar(&wait, "wait", false, "follow the job until it has ended")
	flags.StringVarP(&o.Note, "note", "m", "", "why; stands in the history of the job")
	flags.StringVar(&o.Actor, "actor", "", "your name in the history; defaults to the login name")
	flags.StringVar(&o.Owner, "owner", "", "whose archive it is; defaults to you")
	flags.StringVar(&o.Group, "group", "", "group of the job")
	flags.StringVar(&o.Key, "key", "", "idempotency key")
	flags.IntVar(&priority, "priority", 0, "0 goes first, 99 last")
	return cmd
}

func (c *commands) status() *cobra.Command {
	return &cobra.Command{
		Use:   "status JOB",
		Short: "Follow an archive job until it has ended",
		Long: `Shows how far an archive job is, and follows it until it has ended. The exit code is 5 if the job failed. If the job
waits, stagepost why JOB states why.`,
		Example:           "  stagepost archive status arc_01J9...",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.CompleteIDs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, args []string) error {
			id, err := c.JobID(ctx, api, args[0])
			if err != nil {
				return err
			}
			return c.Follow(ctx, id)
		}),
	}
}

func (c *commands) overview() *cobra.Command {
	return &cobra.Command{
		Use:   "overview SOURCE COURSE",
		Short: "Show which activities of a course are archived, changed since, or missing",
		Long: `Compares the activities of a course with the newest archive of each, by fingerprints of their content. The states:
archived, changed (since its newest archive), missing (never archived), removed (archived, and no longer in the course),
expired (its archive was deleted), excluded (it cannot be archived, with the reason).`,
		Example: "  stagepost archive overview campus 5\n  stagepost archive overview campus 5 -o json",
		Args:    cobra.ExactArgs(2),
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, args []string) error {
			o, err := api.ArchiveOverview(ctx, args[0], args[1])
			if err != nil {
				return err
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(o)
			}
			if err := c.printActivities(o.Activities); err != nil || c.Out.Mode != cli.ModeTable {
				return err
			}
			var words []string
			for _, state := range slices.Sorted(maps.Keys(o.Counts)) {
				words = append(words, fmt.Sprintf("%d %s", o.Counts[state], state))
			}
			c.Out.Line("%s: %s", o.Course.Name, strings.Join(words, ", "))
			return nil
		}),
	}
}
