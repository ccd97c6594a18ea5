package archivecli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// ofArchive makes the function of a command whose first argument is an archive.
func (c *commands) ofArchive(
	do func(ctx context.Context, api *client.Client, id job.ID, rest []string) error,
) func(*cobra.Command, []string) error {
	return c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, args []string) error {
		id, err := c.JobID(ctx, api, args[0])
		if err != nil {
			return err
		}
		return do(ctx, api, id, args[1:])
	})
}

func (c *commands) hold() *cobra.Command {
	var h client.HoldArchive
	cmd := &cobra.Command{
		Use:   "hold JOB NAME",
		Short: "Put a legal hold on an archive: nothing of it is deleted",
		Long: `Puts a legal hold on an archive. Until it is released nothing of the archive is deleted: not by the end of its retention
time, and not by two persons. The name is that of the case, so that an archive can have several holds.`,
		Example:           "  stagepost archive hold arc_01J9... 'case 7' --note 'asked for by the legal department'",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: c.CompleteIDs,
		RunE: c.ofArchive(func(ctx context.Context, api *client.Client, id job.ID, rest []string) error {
			h.Name, h.Actor = rest[0], cli.Whoami(h.Actor)
			all, err := api.HoldArchive(ctx, id, h)
			if err != nil {
				return err
			}
			return c.printHolds(all.Holds)
		}),
	}
	cli.Audited(cmd, &h.Note, &h.Actor)
	return cmd
}

func (c *commands) release() *cobra.Command {
	var note, actor string
	cmd := &cobra.Command{
		Use:               "release JOB NAME",
		Short:             "Release a legal hold on an archive",
		Long:              `Releases a legal hold on an archive. Its retention time and other holds still apply.`,
		Example:           "  stagepost archive release arc_01J9... 'case 7' --note 'the case is closed'",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: c.CompleteIDs,
		RunE: c.ofArchive(func(ctx context.Context, api *client.Client, id job.ID, rest []string) error {
			all, err := api.ReleaseArchive(ctx, id, rest[0], cli.Whoami(actor), note)
			if err != nil {
				return err
			}
			return c.printHolds(all.Holds)
		}),
	}
	cli.Audited(cmd, &note, &actor)
	return cmd
}

func (c *commands) printHolds(all []client.ArchiveHold) error {
	return cli.List(c.Out, all, "there is no legal hold", "NAME|BY|SINCE|RELEASED|REASON",
		func(h *client.ArchiveHold) []string {
			return []string{h.Name, h.By, c.Out.When(h.Since), c.when(h.Released), h.Reason}
		})
}

func (c *commands) delete() *cobra.Command {
	var d client.DeleteArchive
	cmd := &cobra.Command{
		Use:   "delete JOB",
		Short: "Request that an archive is deleted",
		Long: `Requests that an archive is deleted from all storage locations. If its retention time has ended it is deleted at once.
Else, and if it is kept indefinitely, another person has to approve the request by stagepost archive approve: no role can
do both. A legal hold refuses it. The record of the archive and the digests of its files remain.`,
		Example:           "  stagepost archive delete arc_01J9... --note 'the wrong course'",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.CompleteIDs,
		RunE: c.ofArchive(func(ctx context.Context, api *client.Client, id job.ID, _ []string) error {
			d.Actor = cli.Whoami(d.Actor)
			request, err := api.DeleteArchive(ctx, id, d)
			if err != nil {
				return err
			}
			return c.printDeletion(&request)
		}),
	}
	cli.Audited(cmd, &d.Note, &d.Actor)
	return cmd
}

func (c *commands) approve() *cobra.Command {
	d := client.DecideDeletion{}
	var refuse bool
	cmd := &cobra.Command{
		Use:   "approve REQUEST",
		Short: "Approve or refuse a request to delete an archive",
		Long: `Approves a request to delete an archive, which is then deleted. The person who requested it cannot approve it. With
--refuse the request ends, and the archive stays; the person who requested it can do that, too.`,
		Example: "  stagepost archive approve del-7f2k... --note checked\n" +
			"  stagepost archive approve del-7f2k... --refuse",
		Args: cobra.ExactArgs(1),
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, args []string) error {
			d.Actor, d.Approve = cli.Whoami(d.Actor), !refuse
			request, err := api.DecideDeletion(ctx, args[0], d)
			if err != nil {
				return err
			}
			return c.printDeletion(&request)
		}),
	}
	cli.Audited(cmd, &d.Note, &d.Actor)
	cmd.Flags().BoolVar(&refuse, "refuse", false, "refuse the request")
	return cmd
}

func (c *commands) printDeletion(d *client.ArchiveDeletion) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(d)
	}
	return c.Out.Sheet([][2]string{
		{"request", d.Request}, {"job", string(d.Job)}, {"state", d.State}, {"kind", d.Kind}, {"reason", d.Reason},
		{"requested by", d.RequestedBy}, {"decided by", d.DecidedBy}, {"next step", d.Remedy},
	})
}

func (c *commands) deletions() *cobra.Command {
	var state string
	cmd := &cobra.Command{
		Use:   "deletions",
		Short: "List requests to delete archives, the oldest first",
		Long: `Lists requests to delete archives, the oldest first. The states: requested (another person has to approve it), approved,
refused, executing (copies are being deleted), done.`,
		Example: "  stagepost archive deletions --state requested",
		Args:    cobra.NoArgs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, _ []string) error {
			all, err := api.ArchiveDeletions(ctx, state)
			if err != nil {
				return err
			}
			return cli.List(c.Out, all, "there is no request", "REQUEST|STATE|JOB|BY|SINCE|REASON",
				func(d *client.ArchiveDeletion) []string {
					since := c.Out.When(d.Requested)
					return []string{d.Request, d.State, c.Out.ID(d.Job), d.RequestedBy, since, d.Reason}
				})
		}),
	}
	cmd.Flags().StringVar(&state, "state", "", "only in this state")
	c.Complete(cmd, "state", "requested", "approved", "refused", "executing", "done")
	return cmd
}

func (c *commands) people() *cobra.Command {
	return cli.Group("people", "Find people whose data archives contain, and erase them",
		`Answers requests of people about their data: which archives contain it, and where. Searches are entered in the audit log
with their reason.`,
		"  stagepost archive people find example --note 'request 12'\n"+
			"  stagepost archive people show campus 19 -o json > data.json",
		c.peopleFind(), c.peopleShow(), c.peopleExport(), c.peopleErase())
}

func (c *commands) peopleFind() *cobra.Command {
	var f client.FindPeople
	cmd := &cobra.Command{
		Use:   "find TEXT",
		Short: "Find people by name, username, number or mail address",
		Long: `Finds people by their username, number, mail address or id in the source, without regard to case, or by a part of their
name of at least three characters.`,
		Example: "  stagepost archive people find ann@example.org --note 'request 12'",
		Args:    cobra.ExactArgs(1),
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, args []string) error {
			f.Text, f.Actor = args[0], cli.Whoami(f.Actor)
			found, err := api.FindPeople(ctx, f)
			if err != nil {
				return err
			}
			err = cli.List(c.Out, found.People, "no archive has data of such a person",
				"SOURCE|ID|USERNAME|NUMBER|NAME|MAIL",
				func(p *client.ArchivePerson) []string {
					return []string{p.Source, p.ID, p.Username, p.Number, p.Name, p.Email}
				})
			if found.More {
				c.Note("there are others: make the search narrower")
			}
			return err
		}),
	}
	cli.Audited(cmd, &f.Note, &f.Actor)
	return cmd
}

func (c *commands) peopleShow() *cobra.Command {
	var p client.NamePerson
	cmd := &cobra.Command{
		Use:   "show SOURCE ID",
		Short: "Show what archives have of a person",
		Long: `Shows the archives that contain data of a person, and the files in their packages. With -o json it is an export for the
person. stagepost archive retrieve fetches the packages.`,
		Example: "  stagepost archive people show campus 19 --note 'request 12'",
		Args:    cobra.ExactArgs(2),
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, args []string) error {
			p.Source, p.ID, p.Actor = args[0], args[1], cli.Whoami(p.Actor)
			d, err := api.PersonData(ctx, p)
			if err != nil {
				return err
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(d)
			}
			if c.Out.Mode == cli.ModeTable {
				c.Out.Line("%s (%s of %s): %d contents in %d archives", d.Person.Name, d.Person.ID, d.Person.Source,
					len(d.Contents), len(d.Archives))
			}
			return cli.List(c.Out, d.Contents, "no archive has data of the person", "JOB|COURSE|ACTIVITY|KIND|PATH",
				func(x *client.ArchivePersonContent) []string {
					return []string{c.Out.ID(x.Job), x.Course, x.Activity, x.Kind, x.Path}
				})
		}),
	}
	cli.Audited(cmd, &p.Note, &p.Actor)
	return cmd
}

func (c *commands) peopleErase() *cobra.Command {
	var e client.ErasePerson
	var expect int
	cmd := &cobra.Command{
		Use:   "erase SOURCE ID",
		Short: "Remove a person from the catalog of archives",
		Long: `Removes a person from the catalog, and records that without the name. The number of contents that have data of the person
is required, so that no other person is erased by mistake: stagepost archive people show prints it. Packages are not changed:
the record lists the archives whose deletion has to be requested. A legal hold on one of them refuses the erasure.`,
		Example: "  stagepost archive people erase campus 19 --expect 4 --note 'request 12'",
		Args:    cobra.ExactArgs(2),
		RunE: c.Requests(func(ctx context.Context, api *client.Client, cmd *cobra.Command, args []string) error {
			e.Source, e.ID, e.Actor = args[0], args[1], cli.Whoami(e.Actor)
			if cmd.Flags().Changed("expect") {
				e.Expect = &expect
			}
			done, err := api.ErasePerson(ctx, e)
			if err != nil {
				return err
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(done)
			}
			pairs := [][2]string{
				{"record", done.Request}, {"erased", strconv.FormatInt(done.Contents, 10)}, {"by", done.By},
			}
			for _, id := range done.Archives {
				pairs = append(pairs, [2]string{"to be deleted", fmt.Sprintf("stagepost archive delete %s", id)})
			}
			return c.Out.Sheet(pairs)
		}),
	}
	cli.Audited(cmd, &e.Note, &e.Actor)
	cmd.Flags().IntVar(&expect, "expect", 0, "how many contents have data of the person")
	return cmd
}
