package slurm

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// fakeSlurm is a Slurm for what a real one does too rarely: answers that get lost, unknown words. Its commands are
// links to the test binary; its state is a file.
type fakeSlurm struct {
	dir string
}

// fakeState is what all commands of a fake share.
type fakeState struct {
	Next int
	Jobs []fakeJob
	Fail map[string]fakeFailure // by command
	Book bool                   // there is accounting
	Sent int                    // calls of sbatch that were taken
	Asks map[string]int         // calls by command
	Odd  string                 // a line that squeue prints besides
}

type fakeJob struct {
	ID, Name, State, Reason string
	Exit                    string // "0:9"
	Hidden                  bool   // squeue has forgotten it
	Args                    []string
}

// fakeFailure is how a command fails.
type fakeFailure struct {
	Message string
	After   bool // it does its work first
	Out     string
}

const fakeVariable = "SLURM_CONF" // the only one of the server's that commands get

// TestMain is also each command of the fake.
func TestMain(m *testing.M) {
	if dir, ok := strings.CutPrefix(os.Getenv(fakeVariable), "fake:"); ok &&
		filepath.Base(os.Args[0]) != filepath.Base(executable()) {
		os.Exit((&fakeSlurm{dir}).command(filepath.Base(os.Args[0]), os.Args[1:]))
	}
	os.Exit(m.Run())
}

func executable() string {
	exe, err := os.Executable() // on Linux, links are followed
	if err != nil {
		panic(err)
	}
	return exe
}

// newFake gives a fake and options for it.
func newFake(t *testing.T) (*fakeSlurm, Options) {
	t.Helper()
	dir, err := os.MkdirTemp("", "stagepost-fake-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a tool that was ended with its executor may still write its state
	f := &fakeSlurm{dir}
	for _, name := range tools {
		if err := os.Symlink(executable(), filepath.Join(f.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	f.change(func(s *fakeState) { s.Next = 100 })
	o := options(filepath.Join(t.TempDir(), "shared"))
	o.Bin, o.Conf = f.dir, "fake:"+f.dir
	return f, o
}

// change changes the fake's state, alone.
func (f *fakeSlurm) change(do func(*fakeState)) {
	lock, err := os.OpenFile(filepath.Join(f.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		panic(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		panic(err)
	}
	var s fakeState
	if text, err := os.ReadFile(filepath.Join(f.dir, "state")); err == nil {
		if err := json.Unmarshal(text, &s); err != nil {
			panic(err)
		}
	}
	if s.Fail == nil {
		s.Fail, s.Asks = map[string]fakeFailure{}, map[string]int{}
	}
	do(&s)
	text, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(filepath.Join(f.dir, "state"), text, 0o600)
	}
	if err != nil {
		panic(err)
	}
}

func (f *fakeSlurm) state() (now fakeState) {
	f.change(func(s *fakeState) { now = *s })
	return now
}

// set gives a job, by its payload's id, another state.
func (f *fakeSlurm) set(id string, do func(*fakeJob)) {
	f.change(func(s *fakeState) {
		for i := range s.Jobs {
			if s.Jobs[i].Name == "stagepost-"+id+"-1" {
				do(&s.Jobs[i])
			}
		}
	})
}

// command plays one call.
func (f *fakeSlurm) command(name string, args []string) (code int) {
	f.change(func(s *fakeState) {
		s.Asks[name]++
		failure, fails := s.Fail[name]
		if fails && !failure.After {
			fmt.Print(failure.Out)
			fmt.Fprintln(os.Stderr, failure.Message)
			code = 1
			return
		}
		out := ""
		switch name {
		case "sbatch":
			s.Next++
			s.Sent++
			id := strconv.Itoa(s.Next)
			s.Jobs = append(s.Jobs, fakeJob{ID: id, Name: argument(args, "--job-name="), State: "PENDING",
				Reason: "Priority", Exit: "0:0", Args: args})
			out = id + "\n"
		case "squeue":
			out = s.queue(args) + s.Odd
		case "sacct":
			if !s.Book {
				fmt.Fprintln(os.Stderr, "Slurm accounting storage is disabled")
				code = 1
				return
			}
			for _, j := range s.asked(args) {
				out += fmt.Sprintf("%s|%s|%s|2026-01-01T00:00:00|2026-01-01T00:01:00|n1|00:00:05|0|%s\n%s.batch|%s|%s|||n1|00:00:05|2048K|batch\n", j.ID, j.State, j.Exit, j.Name, j.ID, j.State, j.Exit)
			}
		case "scontrol":
			for _, j := range s.Jobs {
				if j.ID == args[len(args)-1] && !j.Hidden {
					out = fmt.Sprintf("JobId=%s JobName=%s JobState=%s ExitCode=%s\n", j.ID, j.Name, j.State, j.Exit)
				}
			}
		case "scancel":
			for i := range s.Jobs {
				if j := &s.Jobs[i]; slices.Contains(args, j.ID) && argument(args, "--name=") == j.Name {
					j.State = "CANCELLED"
				}
			}
		case "sinfo":
			out = "main*|up|2/6/0/8\nother|up|0/1/1/2\n"
			if argument(args, "--format=") == "%P|%l" {
				out = "main*|1:00:00\nother|infinite\n"
			}
		}
		if fails {
			fmt.Print(failure.Out)
			fmt.Fprintln(os.Stderr, failure.Message)
			code = 1
			return
		}
		fmt.Print(out)
	})
	return code
}

func (s *fakeState) asked(args []string) (jobs []fakeJob) {
	names := strings.Split(argument(args, "--name="), ",")
	for _, j := range s.Jobs {
		if slices.Contains(names, j.Name) {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

func (s *fakeState) queue(args []string) (out string) {
	for _, j := range s.asked(args) {
		if !j.Hidden {
			out += strings.Join([]string{j.ID, j.State, "1767225600", "N/A", "n1", j.Name, j.Reason}, "|") + "\n"
		}
	}
	return out
}

func argument(args []string, name string) string {
	for _, a := range args {
		if value, ok := strings.CutPrefix(a, name); ok {
			return value
		}
	}
	return ""
}
