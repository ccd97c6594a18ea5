package agentcli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/agent"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
)

// drainFlags are those of drain and resume.
type drainFlags struct {
	token, note, actor string
	noWait             bool
}

func (f *drainFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.token, "agent-token-file", "", "with a URL: file with the agent's token; defaults to none")
	cmd.Flags().StringVarP(&f.note, "note", "m", "", "with a NAME: why; users whose jobs wait for it see it")
	cmd.Flags().StringVar(&f.actor, "actor", "", "with a NAME: your name; defaults to the login name")
}

func (c *commands) agentDrain() *cobra.Command {
	var f drainFlags
	cmd := &cobra.Command{
		Use:   "drain NAME|URL",
		Short: "Stop giving payloads to an agent",
		Long: `Gives an agent no new payloads, and waits until those that it has are done. Then its machine can be stopped.

With the NAME of an agent the server is asked (--server), which sends it nothing more, however it is reached: also one that dials the server and has no address, an original
client, a cluster. A drain outlasts restarts of the server and of the agent, until stagepost compute agent resume NAME. Jobs for which there is no other agent wait, and lose no attempt.

With its URL the agent itself is asked, and takes nothing from any server. A restart of the agent or stagepost compute agent resume URL ends that.`,
		Example: "  stagepost compute agent drain node7 --note 'new disks'\n  stagepost compute agent drain " +
			"http://127.0.0.1:9000",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			if !isURL(args[0]) {
				return c.drainNamed(ctx, args[0], true, &f)
			}
			remote, err := dialAgent(args[0], f.token)
			if err != nil {
				return err
			}
			defer remote.Close()
			room, err := remote.Drain(ctx, true)
			if err != nil || f.noWait {
				return c.printRoom(room, noAgentAt(args[0], err))
			}
			return c.agentDrained(ctx, room, unfinished(room),
				func(ctx context.Context) (compute.Capacity, int, error) {
					room, err := remote.Capacity(ctx)
					return room, unfinished(room), err
				})
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "do not wait for what it has")
	return cmd
}

// isURL reports whether an argument is an address and no name.
func isURL(arg string) bool { return strings.ContainsAny(arg, ":/") }

// noAgentAt reports what to do when what answers at a URL is something else than an agent, most likely the server.
func noAgentAt(url string, err error) error {
	if !errors.Is(err, agent.ErrNoAgent) {
		return err
	}
	return cli.Usagef("%s is not the address of an agent; if it is that of the server, name the agent: stagepost "+
		"compute agent drain NAME --server %s", url, url)
}

// drainNamed asks the server, and waits for a drained agent.
func (c *commands) drainNamed(ctx context.Context, name string, on bool, f *drainFlags) error {
	if f.token != "" {
		return cli.Usagef("--agent-token-file is for the URL of an agent; the server is asked with --token-file")
	}
	api, err := c.API()
	if err != nil {
		return err
	}
	now, err := api.DrainComputeAgent(ctx, name, on, client.Act{Actor: cli.Whoami(f.actor), Note: f.note})
	if err != nil || !on || f.noWait {
		return c.printRoom(roomOf(&now), err)
	}
	return c.agentDrained(ctx, roomOf(&now), now.Jobs, func(ctx context.Context) (compute.Capacity, int, error) {
		// a second time it only reports
		now, err := api.DrainComputeAgent(ctx, name, true, client.Act{Actor: cli.Whoami(f.actor), Note: f.note})
		return roomOf(&now), now.Jobs, err
	})
}

// unfinished is how many payloads an agent has that have not ended.
func unfinished(room compute.Capacity) int { return room.Slots - room.Free + room.Waiting }

// roomOf makes of what the server reports an agent what the agent would.
func roomOf(a *client.ComputeAgent) compute.Capacity {
	return compute.Capacity{
		Kind: a.Kind, Services: a.Services, Slots: a.Slots, Free: a.Free, Waiting: a.Waiting + a.Reserved, Load: a.Load,
		Draining: a.Draining, Sandbox: a.Sandbox, Memory: a.Memory, Cores: a.Cores,
		Detail: a.Detail,
	}
}

// agentDrained waits until an agent has no payload that has not ended.
func (c *commands) agentDrained(ctx context.Context, room compute.Capacity, left int,
	look func(context.Context) (compute.Capacity, int, error)) (err error) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for reported := -1; ; {
		if left == 0 {
			return c.printRoom(room, nil)
		}
		if left != reported && c.Out.Mode != cli.ModeJSON {
			c.Note("%d %s not done", left, cli.Plural(int64(left), "payload is", "payloads are"))
			reported = left
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if room, left, err = look(ctx); err != nil {
			return err
		}
	}
}

func (c *commands) agentResume() *cobra.Command {
	var f drainFlags
	cmd := &cobra.Command{
		Use:     "resume NAME|URL",
		Short:   "Give payloads to a drained agent again",
		Long:    `Ends stagepost compute agent drain: with a NAME at the server, with a URL at the agent itself.`,
		Example: "  stagepost compute agent resume node7\n  stagepost compute agent resume http://127.0.0.1:9000",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			if !isURL(args[0]) {
				return c.drainNamed(ctx, args[0], false, &f)
			}
			remote, err := dialAgent(args[0], f.token)
			if err != nil {
				return err
			}
			defer remote.Close()
			room, err := remote.Drain(ctx, false)
			return c.printRoom(room, noAgentAt(args[0], err))
		},
	}
	f.add(cmd)
	return cmd
}

func dialAgent(url, tokenFile string) (*agent.Remote, error) {
	token, err := readAgentToken(tokenFile)
	if err != nil {
		return nil, err
	}
	remote, err := agent.Dial(agent.DialOptions{URL: url, Token: token})
	if err != nil {
		return nil, cli.Usage(err)
	}
	return remote, nil
}

// printRoom prints how an agent stands.
func (c *commands) printRoom(room compute.Capacity, err error) error {
	if err != nil {
		return err
	}
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(room)
	}
	state := "takes payloads"
	if room.Draining {
		state = "draining"
	}
	return c.Out.Sheet([][2]string{
		{"state", state}, {"slots", fmt.Sprintf("%d of %d free", room.Free, room.Slots)}, {"waiting",
			fmt.Sprint(room.Waiting)}, {"sandbox", room.Sandbox}, {"instance", room.Instance},
	})
}
