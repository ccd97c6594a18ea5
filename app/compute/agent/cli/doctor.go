package agentcli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/compute/agent"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/quantity"
)

// finding is one line of the doctor's.
type finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Needed bool   `json:"needed"` // payloads cannot be run without it
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
}

func (c *commands) agentDoctor() *cobra.Command {
	tier := sandbox.Require
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether this machine can run payloads, with remedies",
		Long: `Tries every kind of sandbox by running a command in it, checks control groups, disk, memory and clock, and prints what it found with what an operator can do about it.
The exit code is 0 if an agent with this --sandbox could run payloads here, and 1 if not.`,
		Example: "  stagepost compute agent doctor --data /srv/agent --sandbox require\n  stagepost compute agent " +
			"doctor -o json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			found := append(examineSandbox(ctx, tier), examineMachine(c.Settings.Data)...)
			return c.printFindings(found)
		},
	}
	cmd.Flags().StringVar(&tier, "sandbox", tier, "as the agent's: auto, native, bwrap, none or require")
	c.Complete(cmd, "sandbox", "auto", "native", "bwrap", "none", "require")
	return cmd
}

// printFindings prints what was found; an ailing machine is an error.
func (c *commands) printFindings(found []finding) error {
	faults := 0
	rows := make([][]string, 0, len(found))
	for _, f := range found {
		state := "ok"
		switch {
		case !f.OK && f.Needed:
			state = "FAULT"
			faults++
		case !f.OK:
			state = "missing"
		}
		detail := f.Detail
		if f.Remedy != "" {
			detail += "; " + f.Remedy
		}
		rows = append(rows, []string{state, f.Name, c.Out.Local(detail)})
	}
	var err error
	if faults > 0 {
		err = cli.Faults{N: faults}
	}
	if c.Out.Mode == cli.ModeJSON {
		return errors.Join(c.Out.JSON(map[string]any{"able": faults == 0, "findings": found}), err)
	}
	return errors.Join(c.Out.Table([]string{"", "CHECK", "FOUND"}, rows), err)
}

// examineSandbox opens a sandbox and lets a command run in it.
func examineSandbox(ctx context.Context, tier string) []finding {
	s, err := sandbox.Open(ctx, sandbox.Options{Tier: tier, Name: fmt.Sprintf("stagepost-doctor-%d", os.Getpid())})
	if err != nil {
		return []finding{{Name: "sandbox " + tier, Needed: true, Detail: err.Error(),
			Remedy: "see --sandbox; stagepost compute agent doctor --sandbox auto shows what works"}}
	}
	defer s.Close()
	found := []finding{{Name: "sandbox", OK: true, Needed: true, Detail: "tier " + s.Tier()}}
	for _, one := range s.Checks() {
		found = append(found, finding{Name: one.Name, OK: one.OK, Detail: one.Detail, Remedy: one.Remedy})
	}
	dir, err := os.MkdirTemp("", "stagepost-doctor-")
	if err != nil {
		return append(found, finding{Name: "a payload", Needed: true, Detail: err.Error(),
			Remedy: "make the directory for temporary files writable"})
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	e, err := s.Run(ctx, &sandbox.Command{Argv: []string{agent.Shell(), "-c", "true"}, Dir: dir,
		Limits: sandbox.Limits{Wall: 30 * time.Second}})
	switch {
	case err != nil:
		found = append(found, finding{Name: "a payload", Needed: true, Detail: err.Error()})
	case e.Exit != 0 || e.Cause != sandbox.Itself:
		found = append(found, finding{Name: "a payload", Needed: true, Detail: e.Sentence})
	default:
		found = append(found, finding{Name: "a payload", OK: true, Needed: true,
			Detail: fmt.Sprintf("%s ran in %s", agent.Shell(),
				quantity.FormatDuration(time.Since(began).Round(time.Millisecond)))})
	}
	return found
}

// leastDisk is the free space below which a machine is not fit for payloads.
const leastDisk = 512 << 20

// examineMachine inspects disk, memory, processors and clock.
func examineMachine(data string) []finding {
	found := []finding{{Name: "processors", OK: true, Detail: fmt.Sprint(runtime.NumCPU())}}
	memory := agent.MachineMemory()
	found = append(found, finding{Name: "memory", OK: memory > 0, Detail: quantity.Size(memory),
		Remedy: remedyIf(memory <= 0, "give --memory: the system does not report it")})
	for data != "" { // the nearest directory that there is
		if _, err := os.Stat(data); err == nil {
			break
		}
		if parent := filepath.Dir(data); parent == data {
			break
		} else {
			data = parent
		}
	}
	free, err := agent.DiskFree(data)
	disk := finding{Name: "disk", OK: err == nil && free >= leastDisk, Needed: true,
		Detail: quantity.Size(free) + " free in " + data}
	if err != nil {
		disk.Detail = err.Error()
	}
	disk.Remedy = remedyIf(!disk.OK, "give --data on a larger file system")
	year := time.Now().Year()
	clock := finding{Name: "clock", OK: year >= 2026 && year < 2100, Needed: true,
		Detail: time.Now().UTC().Format(time.RFC3339)}
	clock.Remedy = remedyIf(!clock.OK, "set the clock: results are kept by it")
	return append(found, disk, clock)
}

func remedyIf(wanted bool, text string) string {
	if wanted {
		return text
	}
	return ""
}
