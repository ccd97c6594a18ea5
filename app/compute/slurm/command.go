package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"time"
)

// Bounds of what a command may print.
const (
	mostOutput  = 32 << 20 // a line of squeue has some 120 bytes
	mostMessage = 16 << 10
)

// tools are the commands of Slurm; all but sacct must be there.
var tools = []string{"sbatch", "squeue", "scontrol", "scancel", "sinfo", "sacct"}

// commandsThere searches for the commands once.
func (s *Slurm) commandsThere() error {
	var missing []string
	for _, tool := range tools {
		path, err := exec.LookPath(filepath.Join(s.o.Bin, tool))
		switch {
		case err == nil:
			if path, err = filepath.Abs(path); err != nil {
				return fmt.Errorf("slurm: %w", err)
			}
			s.commands[tool] = path
		case tool == "sacct":
			s.accounting.absent = true
		default:
			missing = append(missing, tool)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("slurm: no %s (Debian: apt-get install slurm-client; or set where the commands are)",
			strings.Join(missing, ", "))
	}
	return nil
}

// failure is a command that did not end with 0.
type failure struct {
	tool    string
	message string // what it wrote to standard error, shortened
	started bool   // it ran at all
	err     error
}

func (f *failure) Error() string {
	text := strings.Join(strings.Fields(strings.ReplaceAll(f.message, f.tool+": error: ", "")), " ")
	if text == "" {
		return fmt.Sprintf("%s: %v", f.tool, f.err)
	}
	return fmt.Sprintf("%s: %s (%v)", f.tool, text, f.err)
}

func (f *failure) Unwrap() error { return f.err }

// run gives what a command printed. It has an environment of its own: variables as SBATCH_PARTITION or SQUEUE_FORMAT
// would change what it does.
func (s *Slurm) run(ctx context.Context, tool string, args ...string) (string, error) {
	path, ok := s.commands[tool]
	if !ok {
		return "", &failure{tool: tool, err: errors.New("there is no such command")}
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	out, message := &bounded{most: mostOutput}, &bounded{most: mostMessage}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = s.environment(), s.o.Dir, out, message
	cmd.WaitDelay = 2 * time.Second
	if err := cmd.Start(); err != nil {
		return "", &failure{tool: tool, err: err}
	}
	err := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case err == nil && out.cut:
		err = fmt.Errorf("it printed more than %d bytes", mostOutput)
	}
	if err != nil {
		return "", &failure{tool: tool, message: message.String(), started: true, err: err}
	}
	return out.String(), nil
}

// environment is what commands get. sbatch passes it on to the job (--export=ALL): the other choices have Slurm start a
// login shell on the node to find out the user's.
func (s *Slurm) environment() []string {
	path := "/usr/local/bin:/usr/bin:/bin"
	if s.o.Bin != "" {
		path = s.o.Bin + ":" + path
	}
	env := []string{"PATH=" + path, "LC_ALL=C", "TZ=UTC", "SLURM_TIME_FORMAT=%s", "HOME=" + s.o.Dir}
	if s.o.Conf != "" {
		env = append(env, "SLURM_CONF="+s.o.Conf)
	} else if conf := os.Getenv("SLURM_CONF"); conf != "" {
		env = append(env, "SLURM_CONF="+conf)
	}
	if u, err := user.Current(); err == nil {
		env = append(env, "USER="+u.Username, "LOGNAME="+u.Username)
	}
	return env
}

// bounded keeps the beginning of what is written and swallows the rest.
type bounded struct {
	bytes.Buffer
	most int
	cut  bool
}

func (b *bounded) Write(p []byte) (int, error) {
	n := len(p)
	if room := b.most - b.Len(); n > room {
		b.cut, p = true, p[:room]
	}
	b.Buffer.Write(p)
	return n, nil
}
