package ingestcli

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
	"github.com/stagepost/stagepost/client"
)

func (c *commands) access() *cobra.Command {
	var r client.AccessRequest
	var out string
	var wait, check bool
	cmd := &cobra.Command{
		Use:   "access [ARK]",
		Short: "Ask for a stored object as a package, and fetch it",
		Long: `Asks for an object, one of its versions or some of its files as a package: a ZIP or TAR file, or a bag (RFC 8493) in either. The server checks every
file's checksums and prepares the package; nothing is copied. The command prints the token with which the package can be fetched, now or
later, until it expires.

With --wait it follows the preparation; the exit code then is 5 if it failed. With --out it waits, then fetches the package into a file. A download that breaks
off is continued, by this command or by the next one with the same request. With --check the bag is validated once it is here.

The name of the package and the directory in it follow from ARK and version; --name gives another one.`,
		Example: `  stagepost ingest access ark:/99999/fk4abc --out map.zip
  stagepost ingest access ark:/99999/fk4abc --version 2 --file map.tif --file notes.txt --format bag-tar
  stagepost ingest access --local-id map-17 --owner library --format bag-zip --out map.zip --check`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				r.Object = args[0]
			}
			switch {
			case (r.Object == "") == (r.LocalID == ""):
				return cli.Usagef("name the object by its ARK or by --local-id, one of the two")
			case check && (out == "" || out == "-" || !strings.HasPrefix(r.Format, "bag-")):
				return cli.Usagef("--check is for a bag that --out puts into a file")
			}
			if err := cli.Free(out); err != nil {
				return err
			}
			if r.Requester == "" {
				r.Requester = cli.Whoami("")
			}
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			return c.getPackage(ctx, r, out, wait, check)
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.LocalID, "local-id", "", "the depositor's own name for the object, in place of its ARK")
	f.StringVar(&r.Owner, "owner", "", "whose name that is, if several have it")
	f.IntVar(&r.Version, "version", 0, "which version; 0 is the newest")
	f.StringArrayVar(&r.Files, "file", nil,
		"only this file; may be given again. Of the depositor's files the directory producer/ may be left out")
	f.StringVar(&r.Format, "format", "zip", "zip, tar, bag-zip or bag-tar")
	f.StringVar(&r.Name, "name", "", "of the package, without ending")
	f.StringVar(&r.Requester, "requester", "", "who asks; defaults to the login name")
	f.StringVar(&r.Key, "key", "", "idempotency key")
	f.StringVar(&out, "out", "", "fetch it into this file; - is standard output")
	f.BoolVar(&wait, "wait", false, "follow the preparation until it has ended")
	f.BoolVar(&check, "check", false, "validate the bag that was fetched")
	c.Complete(cmd, "format", "zip", "tar", "bag-zip", "bag-tar")
	return cmd
}

// GetPackage asks for a package as the command access does.
func GetPackage(ctx context.Context, c *cli.Call, r client.AccessRequest, out string, wait, check bool) error {
	return (&commands{Commands: jobs.Commands{Call: c}}).getPackage(ctx, r, out, wait, check)
}

// getPackage asks for a package and, if wanted, waits for it, fetches it and validates it.
func (c *commands) getPackage(ctx context.Context, r client.AccessRequest, out string, wait, check bool) error {
	api, err := c.API()
	if err != nil {
		return err
	}
	a, err := api.RequestAccess(ctx, r)
	if err != nil {
		return err
	}
	if out == "" && !wait {
		return c.printAccess(&a)
	}
	if out == "-" { // standard output is the package's
		a, err = c.settled(ctx, api, &a)
		if err != nil {
			return err
		}
		return c.fetchTo(ctx, api, &a, out)
	}
	if c.Out.Mode != cli.ModeJSON { // the rest follows when the package is ready
		if err := c.Out.Sheet(accessIDs(&a)); err != nil {
			return err
		}
	}
	if err := c.Follow(ctx, a.Job); err != nil {
		return err
	}
	if a, err = api.Access(ctx, a.Token); err != nil {
		return err
	}
	if c.Out.Mode == cli.ModeJSON {
		err = c.Out.JSON(a)
	} else {
		err = c.Out.Sheet(c.accessFacts(&a))
	}
	if err != nil || out == "" {
		return err
	}
	if err := c.fetchTo(ctx, api, &a, out); err != nil || !check {
		return err
	}
	return c.checkBag(ctx, out)
}

// printAccess prints a request and its state.
func (c *commands) printAccess(a *client.Access) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(a)
	}
	return c.Out.Sheet(append(accessIDs(a), c.accessFacts(a)...))
}

// accessIDs gives what a request is found by.
func accessIDs(a *client.Access) [][2]string {
	return [][2]string{{"token", a.Token}, {"job", string(a.Job)}}
}

// accessFacts gives the state of a request and what is known of its package.
func (c *commands) accessFacts(a *client.Access) [][2]string {
	number := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	size := ""
	if a.Size > 0 {
		size = c.Bytes(a.Size)
	}
	return [][2]string{
		{"state", string(a.State)}, {"status", strconv.Itoa(a.Status)}, {"message", a.Message}, {"cause", a.Cause},
		{"object", a.Object}, {"version", strconv.Itoa(a.Version)}, {"format", a.Format}, {"file", a.File},
		{"files", strconv.Itoa(a.Files)}, {"bytes", c.Bytes(a.Bytes)}, {"queue", a.Queue}, {"place",
			number(int64(a.Place))},
		{"size", size}, {"etag", a.ETag}, {"requested", c.Out.Moment(a.Requested)}, {"ready", c.Out.Moment(a.Ready)},
		{"expires", c.Out.Moment(a.Expires)}, {"damaged", strings.Join(a.Damaged, ", ")},
	}
}
