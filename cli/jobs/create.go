package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/job"
)

// create makes a job of a kind that has no command of its own for that.
func (c *Commands) create() *cobra.Command {
	var o api.Order
	var spec string
	var priority int
	cmd := &cobra.Command{
		Use: "create KIND", Short: "Create a job of a kind from a lifecycle file",
		Long: "Creates a job of a kind without a command of its own, such as one of stagepost lifecycle add. It " +
			"prints the job's id.",
		Example: "  stagepost create lab.scan --spec '{\"volume\": \"A 12\"}' --key A12\n" +
			"  stagepost create lab.scan --spec @order.json --group maps",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Kind, o.Actor = job.Kind(args[0]), cli.Whoami(o.Actor)
			if file, ok := strings.CutPrefix(spec, "@"); ok {
				text, err := os.ReadFile(file)
				if err != nil {
					return cli.Usage(err)
				}
				spec = string(text)
			}
			if spec != "" {
				if !json.Valid([]byte(spec)) {
					return cli.Usagef("--spec is not JSON: quote it, or name a file with @")
				}
				o.Spec = json.RawMessage(spec)
			}
			if cmd.Flags().Changed("priority") {
				o.Priority = &priority
			}
			server, err := c.API()
			if err != nil {
				return err
			}
			j, err := server.Create(cmd.Context(), o)
			if err != nil {
				return err
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(j)
			}
			_, err = fmt.Fprintln(c.Out, j.ID)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&spec, "spec", "", "what the work needs, as JSON; @FILE reads a file")
	f.StringVar(&o.Key, "key", "", "a name for this order: repeating it with the same key gives the same job")
	f.StringVar(&o.Group, "group", "", "the group of the job")
	f.StringVar(&o.Owner, "owner", "", "whose the job is")
	f.StringArrayVar(&o.Words, "words", nil, "a text, such as a title, by whose words people find the job")
	f.StringSliceVar(&o.Tags, "tag", nil, "a tag, by which holds and limits name the job; may be repeated")
	f.StringSliceVar(&o.Requires, "requires", nil,
		"labels that a worker must have to take the job, with commas between: NAME or NAME=VALUE")
	f.IntVar(&priority, "priority", job.DefaultPriority, "0 to 99, lower first")
	f.StringVarP(&o.Note, "note", "m", "", "why; is in the history")
	f.StringVar(&o.Actor, "actor", "", "your name in the history; defaults to the login name")
	return cmd
}

// lifecycleAdd brings a lifecycle to the server.
func (c *Commands) lifecycleAdd() *cobra.Command {
	var l api.NewLifecycle
	cmd := &cobra.Command{
		Use: "add FILE", Short: "Add a kind of jobs to the server, from a YAML file",
		Long: `Adds a kind of jobs to the server: its lifecycle, and for each state that has work a remote worker or a command in a sandbox. The server keeps
the file. Adding it again replaces it; while jobs of the kind are open, the states and transitions must stay as they are.`,
		Example: "  stagepost lifecycle add scan.yaml --note 'scans of maps'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return cli.Usage(err)
			}
			server, err := c.API()
			if err != nil {
				return err
			}
			l.File, l.Actor = string(text), cli.Whoami(l.Actor)
			made, err := server.AddLifecycle(cmd.Context(), l)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(made)
			}
			c.Out.Line("added %s, definition %s; create a job with: stagepost create %s", made.Name, made.Hash,
				made.Name)
			return nil
		},
	}
	cmd.Flags().StringVarP(&l.Note, "note", "m", "", "why; is entered in the audit log")
	cmd.Flags().StringVar(&l.Actor, "actor", "", "your name in the audit log; defaults to the login name")
	return cmd
}

// lifecycleRemove removes a lifecycle from the server.
func (c *Commands) lifecycleRemove() *cobra.Command {
	var note, actor string
	cmd := &cobra.Command{
		Use: "remove NAME", Short: "Remove a kind of jobs that was added to the server",
		Long: `Removes a kind of jobs that stagepost lifecycle add brought to the server, with its file. It is refused while jobs of the kind exist, unless they are
deleted: records and histories need their lifecycle.`,
		Example: "  stagepost lifecycle remove lab.book --note 'the project ended'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			server, err := c.API()
			if err != nil {
				return err
			}
			gone, err := server.RemoveLifecycle(cmd.Context(), args[0], cli.Whoami(actor), note)
			if err != nil {
				return err
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(gone)
			}
			_, err = fmt.Fprintf(c.Out, "removed %s, definition %s\n", gone.Name, gone.Hash)
			return err
		},
	}
	cmd.Flags().StringVarP(&note, "note", "m", "", "why; is entered in the audit log")
	cmd.Flags().StringVar(&actor, "actor", "", "your name in the audit log; defaults to the login name")
	return cmd
}

// drawOfServer draws a lifecycle that the program does not have, as the server does. unknown is the error if there is
// no server.
func (c *Commands) drawOfServer(ctx context.Context, name, format string, unknown error) error {
	endings := map[string]string{"svg": "svg", "mermaid": "mmd", "dot": "dot"}
	server, err := c.API()
	if err != nil || endings[format] == "" {
		return unknown
	}
	text, err := server.Drawing(ctx, name, endings[format])
	if err != nil {
		return err
	}
	_, err = c.Out.Write(text)
	return err
}
