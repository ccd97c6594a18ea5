package ingestcli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
)

func (c *commands) submit() *cobra.Command {
	var s client.Submission
	var priority int
	var wait bool
	cmd := &cobra.Command{
		Use:   "submit FILE",
		Short: "Submit a payload for ingest",
		Long: `Submits a payload and prints the batch that was made of it. FILE may be - for standard input. When the command returns, the server has the
payload on its disk. With --wait it follows the batch; the exit code then is 5 if it failed.

With --key the same submission can be sent again after a broken connection: the second gives the batch that the first made.`,
		Example: "  stagepost submit map.tif --profile demo --title 'A map' --wait\n  stagepost submit batch.checkm " +
			"--type batch-manifest --key 2026-05-04/1",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			payload, done, err := c.payload(args[0])
			if err != nil {
				return err
			}
			defer done()
			if s.Filename == "" && args[0] != "-" {
				s.Filename = filepath.Base(args[0])
			}
			if cmd.Flags().Changed("priority") {
				s.Priority = &priority
			}
			if s.Submitter == "" {
				s.Submitter = cli.Whoami("")
			}
			api, err := c.API()
			if err != nil {
				return err
			}
			j, err := api.Submit(ctx, s, payload)
			if err != nil {
				return err
			}
			if !wait || c.Out.Mode != cli.ModeJSON {
				if err := c.PrintOutcome(&j); err != nil {
					return err
				}
			}
			if !wait {
				return nil
			}
			return c.Follow(ctx, j.ID)
		},
	}
	bindSubmission(cmd, &s)
	f := cmd.Flags()
	f.IntVar(&priority, "priority", 50, "0 goes first, 99 last")
	f.BoolVar(&wait, "wait", false, "follow the batch until it has ended")
	c.Complete(cmd, "type", "file", "container", "object-manifest", "batch-manifest", "container-batch-manifest",
		"single-file-batch-manifest")
	c.CompleteNames(cmd)
	return cmd
}

// payload opens a file, or takes standard input for "-". The caller calls done when it has been read.
func (c *commands) payload(name string) (payload io.Reader, done func(), err error) {
	if name == "-" {
		return c.In, func() {}, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, cli.Usage(err)
	}
	done = func() { _ = f.Close() } // it was only read
	if info, err := f.Stat(); err == nil && info.IsDir() {
		done()
		return nil, nil, cli.Usagef("%s is a directory: pack it (zip, tar) or write a manifest", name)
	}
	return f, done, nil
}

// bindSubmission adds the flags that describe a payload.
func bindSubmission(cmd *cobra.Command, s *client.Submission) {
	f := cmd.Flags()
	for _, text := range []struct {
		to        *string
		name, doc string
	}{
		{&s.Type, "type", "what it is; found out if not given: file, container, object-manifest, batch-manifest, " +
			"container-batch-manifest, single-file-batch-manifest"},
		{&s.Profile, "profile", "the ingest profile"}, {&s.Submitter, "submitter",
			"who submits it; defaults to the login name"},
		{&s.Title, "title", "what it is called"}, {&s.Creator, "creator", "who made it"}, {&s.Date, "date",
			"when it was made"},
		{&s.Filename, "filename", "its name; defaults to that of FILE"}, {&s.PrimaryID, "primary-id",
			"the ARK of the object"},
		{&s.DigestType, "digest-type", "such as sha256"}, {&s.DigestValue, "digest-value", "of the payload"},
		{&s.Notification, "notification", "addresses for the report, with commas between"}, {&s.Key, "key",
			"idempotency key"},
		{&s.ResourceType, "resource-type", "general resource type of DataCite, such as Dataset"},
		{&s.Embargo, "embargo", "when it ends: a date such as 2030-01-31, or none"},
	} {
		f.StringVar(text.to, text.name, "", text.doc)
	}
	f.StringVarP(&s.Note, "note", "m", "", "a note to the batch")
	f.StringSliceVar(&s.LocalIDs, "local-id", nil, "local identifiers of the object")
	f.BoolVar(&s.RetainTarget, "retain-target", false, "leave the target of the identifier at EZID as it is")
	f.Var(&coreFlag{&s.DublinCore}, "dublin-core", "an element and its value, such as subject=maps; may be repeated")
	f.BoolVar(&s.Update, "update", false, "a new version of an object that is stored")
}

// coreFlag is a flag of elements of Dublin Core and their values, ELEMENT=VALUE.
type coreFlag struct{ values *map[string][]string }

func (c *coreFlag) Set(text string) error {
	element, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("%q is no ELEMENT=VALUE", text)
	}
	if *c.values == nil {
		*c.values = map[string][]string{}
	}
	(*c.values)[element] = append((*c.values)[element], value)
	return nil
}

func (c *coreFlag) Type() string { return "stringArray" }

func (c *coreFlag) String() string { return "" }
