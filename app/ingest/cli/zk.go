package ingestcli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/ingest/merritt"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/internal/secretfile"
	"github.com/stagepost/stagepost/store/zookeeper"
	nodes "github.com/stagepost/stagepost/store/zookeeper/merritt"
)

// zk are the commands about the nodes of a Merritt system. They speak to ZooKeeper, not to a server of Stagepost.
func (c *commands) zk() *cobra.Command {
	return cli.Group("zk", "Examine the queue of a Merritt system in ZooKeeper",
		"Examines the nodes of a Merritt ingest queue in ZooKeeper, which a server with --ingest-merritt on shares.",
		"  stagepost zk check zookeeper://zk1:2181\n  stagepost zk dump zookeeper://zk1:2181 /jobs/jid0000000007",
		c.zkCheck(), c.zkOrphans(), c.zkImport(), c.zkDump())
}

// passwordFlag is the flag of commands about an address, with the user that the address may have.
const passwordFlag = "password-file"

// asUser adds the flag to a command.
func asUser(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().String(passwordFlag, "",
		"file with the password of the user of the address, zookeeper://USER@HOST:2181")
	return cmd
}

// parse returns the servers and the options of an address, with the user's password.
func parse(cmd *cobra.Command, address string) (servers []string, o zookeeper.Options, err error) {
	servers, o.Root, o.User, err = zookeeper.Parse(strings.TrimPrefix(address, "zookeeper://"))
	if err != nil {
		return nil, o, cli.Usage(err)
	}
	file := cmd.Flag(passwordFlag).Value.String()
	if (o.User == "") != (file == "") {
		return nil, o, cli.Usagef("a user (zookeeper://USER@HOST:2181) and --password-file belong together")
	}
	if file != "" {
		if o.Password, err = secretfile.ReadMounted(file); err != nil {
			return nil, o, cli.Usagef("--password-file: %w", err)
		}
	}
	return servers, o, nil
}

// withTree runs a function on the nodes of the servers of the address.
func withTree(cmd *cobra.Command, address string, do func(ctx context.Context, t *nodes.Tree) error) error {
	servers, o, err := parse(cmd, address)
	if err != nil {
		return err
	}
	t, err := nodes.OpenTree(cmd.Context(), servers, o.User, o.Password)
	if err != nil {
		return err
	}
	defer t.Close()
	return do(cmd.Context(), t)
}

func (c *commands) zkCheck() *cobra.Command {
	return asUser(&cobra.Command{
		Use:   "check ADDRESS",
		Short: "Compare all nodes of a Merritt queue with each other",
		Long: `Compares all nodes of a Merritt queue with each other, by the rules of Merritt's orphan report and further ones: priorities that its programs
cannot read, jobs without identifiers, records that have been in a state of work for a day, queues that are nearly too long for its programs.
Each finding has what to do about it. Nothing is changed. With findings the exit code is 5.`,
		Example: "  stagepost zk check zookeeper://zk1:2181,zk2:2181",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.zkFaults(cmd, args[0], false) },
	})
}

func (c *commands) zkOrphans() *cobra.Command {
	return asUser(&cobra.Command{
		Use:   "orphans ADDRESS",
		Short: "Print the orphan report of Merritt's admin tool",
		Long: "Prints the orphan report of Merritt's admin tool, by its nine rules. With findings the exit code " +
			"is 5.",
		Example: "  stagepost zk orphans zookeeper://zk1:2181",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.zkFaults(cmd, args[0], true) },
	})
}

// zkFaults prints findings. Columns: level, rule, node, what, remedy.
func (c *commands) zkFaults(cmd *cobra.Command, address string, orphans bool) error {
	return withTree(cmd, address, func(ctx context.Context, t *nodes.Tree) error {
		all, err := t.Check(ctx)
		if err != nil {
			return err
		}
		found := []nodes.Fault{}
		for _, f := range all {
			if f.Orphans || !orphans {
				found = append(found, f)
			}
		}
		if err := cli.List(c.Out, found, "there are no findings", "LEVEL|RULE|NODE|WHAT|REMEDY",
			func(f *nodes.Fault) []string {
				return []string{f.Level, f.Rule, f.Node, f.Text, f.Remedy}
			}); err != nil || len(found) == 0 {
			return err
		}
		return misfits(len(found))
	})
}

// misfits is how many nodes do not fit the others.
type misfits int

func (n misfits) Error() string { return fmt.Sprintf("findings in the nodes: %d", int(n)) }

// code gives the exit code of the errors of these commands.
func code(err error) (int, bool) { return cli.ExitFailed, errors.As(err, new(misfits)) }

func (c *commands) zkImport() *cobra.Command {
	return asUser(&cobra.Command{
		Use:   "import ADDRESS",
		Short: "Show which batches and jobs of a Merritt queue a server would take over as records",
		Long: `Shows the batches, jobs and access requests of a Merritt queue that get a record in the store at the address, or whose record has another state.
Batches and requests that have ended, and the jobs of such batches, get none. Nothing is changed: a server with --ingest-merritt on makes the records when it starts, and the store if there is none. A store on which a
server runs is refused.`,
		Example: "  stagepost zk import zookeeper://zk1:2181/stagepost",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			servers, o, err := parse(cmd, args[0])
			if err != nil {
				return err
			}
			profiles, err := c.settings.OpenProfiles(c.Settings.Data)
			if err != nil {
				return err
			}
			all, fresh, err := merritt.Differences(cmd.Context(), servers, o, profiles)
			if err != nil {
				return err
			}
			if fresh {
				c.Note("there is no store at %s: a server that is started with this address makes it",
					cmp.Or(o.Root, zookeeper.DefaultRoot))
			}
			return cli.List(c.Out, all, "no batch and no job is to be taken over", "NODE|STATE|RECORD|PROFILE",
				func(d *merritt.Difference) []string {
					state := string(d.State)
					if d.Gone {
						state = "(removed)"
					}
					return []string{d.Node, state, c.Out.ID(d.Record), d.Profile}
				})
		},
	})
}

func (c *commands) zkDump() *cobra.Command {
	var most int
	cmd := &cobra.Command{
		Use:   "dump ADDRESS [NODE]",
		Short: "Print a node of ZooKeeper and all below it",
		Long: "Prints a node of ZooKeeper and all below it with their data, of which the first 4096 bytes are " +
			"shown. Locks are marked ephemeral.",
		Example: "  stagepost zk dump zookeeper://zk1:2181 /jobs/jid0000000007\n" +
			"  stagepost zk dump zookeeper://zk1:2181 / -o json",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "/"
			if len(args) > 1 {
				path = args[1]
			}
			return withTree(cmd, args[0], func(ctx context.Context, t *nodes.Tree) error {
				all, more, err := t.Dump(ctx, path, most)
				if err != nil {
					return err
				}
				if more {
					c.Note("there are more nodes: --most shows them")
				}
				return cli.List(c.Out, all, "", "NODE|VERSION|LOCK|DATA", func(n *nodes.Node) []string {
					lock := ""
					if n.Ephemeral {
						lock = "ephemeral"
					}
					data := n.Data
					if n.Restricted {
						data = "for another user of ZooKeeper"
					}
					return []string{n.Path, strconv.Itoa(int(n.Version)), lock, data}
				})
			})
		},
	}
	cmd.Flags().IntVar(&most, "most", 1000, "how many nodes are printed at most")
	return asUser(cmd)
}
