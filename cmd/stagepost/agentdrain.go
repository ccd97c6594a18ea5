package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/agent"
)

func (c *cli) agentDrain() *cobra.Command {
	var token string
	var noWait bool
	cmd := &cobra.Command{
		Use:   "drain URL",
		Short: "Have an agent take no payloads any more",
		Long: `Has the agent refuse payloads, which go to others, and waits until those that it has are done: then its machine can be taken away. A restart of the agent or
stagepost agent resume ends it.`,
		Example: "  stagepost agent drain http://127.0.0.1:9000",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.patient(cmd)
			defer cancel()
			remote, err := dialAgent(args[0], token)
			if err != nil {
				return err
			}
			defer remote.Close()
			room, err := remote.Drain(ctx, true)
			if err != nil || noWait {
				return c.printRoom(room, err)
			}
			return c.agentDrained(ctx, remote, room)
		},
	}
	cmd.Flags().StringVar(&token, "agent-token-file", "", "file with the agent's token; defaults to none")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "do not wait for what it has")
	return cmd
}

// agentDrained waits until the agent has no payload that has not ended.
func (c *cli) agentDrained(ctx context.Context, remote *agent.Remote, room compute.Room) (err error) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for told := -1; ; {
		left := room.Slots - room.Free + room.Waiting
		if left == 0 {
			return c.printRoom(room, nil)
		}
		if left != told && c.out.mode != modeJSON {
			c.note("%d %s not done", left, plural(int64(left), "payload is", "payloads are"))
			told = left
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if room, err = remote.Room(ctx); err != nil {
			return err
		}
	}
}

func (c *cli) agentResume() *cobra.Command {
	var token string
	cmd := &cobra.Command{
		Use:     "resume URL",
		Short:   "Have a drained agent take payloads again",
		Long:    `Ends what stagepost agent drain began.`,
		Example: "  stagepost agent resume http://127.0.0.1:9000",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.patient(cmd)
			defer cancel()
			remote, err := dialAgent(args[0], token)
			if err != nil {
				return err
			}
			defer remote.Close()
			room, err := remote.Drain(ctx, false)
			return c.printRoom(room, err)
		},
	}
	cmd.Flags().StringVar(&token, "agent-token-file", "", "file with the agent's token; defaults to none")
	return cmd
}

func dialAgent(url, tokenFile string) (*agent.Remote, error) {
	token, err := readAgentToken(tokenFile)
	if err != nil {
		return nil, err
	}
	remote, err := agent.Dial(agent.DialOptions{URL: url, Token: token})
	if err != nil {
		return nil, usage(err)
	}
	return remote, nil
}

// printRoom prints how an agent stands.
func (c *cli) printRoom(room compute.Room, err error) error {
	if err != nil {
		return err
	}
	if c.out.mode == modeJSON {
		return c.out.json(room)
	}
	state := "takes payloads"
	if room.Draining {
		state = "draining"
	}
	return c.out.sheet([][2]string{
		{"state", state}, {"slots", fmt.Sprintf("%d of %d free", room.Free, room.Slots)}, {"waiting", fmt.Sprint(room.Waiting)}, {"sandbox", room.Sandbox}, {"instance", room.Instance},
	})
}
