package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// asProgram makes the test's own program the example: built as the test is, with or without -race.
const asProgram = "FLOW_RESUME_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// start runs the program to its end and gives what it printed, and whether it was killed.
func start(t *testing.T, args ...string) (printed string, killed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, log bytes.Buffer
	c := exec.CommandContext(ctx, os.Args[0], args...)
	c.Env = append(os.Environ(), asProgram+"=1",
		"GORACE=atexit_sleep_ms=0") // else each program that was built with -race sleeps for a second at its end
	c.Stdout, c.Stderr = &out, &log
	err := c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		status, ok := exit.Sys().(syscall.WaitStatus)
		killed = ok && status.Signaled() && status.Signal() == syscall.SIGKILL
	}
	if err != nil && !killed || log.Len() > 0 {
		t.Fatalf("it ended with %v and printed %q", err, &log)
	}
	return out.String(), killed
}

// life is one start of the program.
type life struct {
	args   string
	killed bool
	want   string
}

var stories = map[string][]life{
	"undisturbed": {
		{"", false, `
found PENDING done [] active []
executed fetch
executed check
executed resize-small
executed resize-medium
executed resize-large
executed publish
ended: SUCCESS
`},
		{"", false, `
ended already: SUCCESS
`},
	},
	"killed in the fan-out": {
		{"-die-after resize-medium", true, `
found PENDING done [] active []
executed fetch
executed check
executed resize-small
executed resize-medium
`},
		{"", false, `
found RUNNING done [fetch check resize-small] active [resize-medium resize-large]
repeated resize-medium
executed resize-large
executed publish
ended: SUCCESS
`},
		{"", false, `
ended already: SUCCESS
`},
	},
	"killed in each step": {
		{"-die-after fetch", true, `
found PENDING done [] active []
executed fetch
`},
		{"-die-after fetch", true, `
found RUNNING done [] active [fetch]
repeated fetch
`},
		{"-die-after check", true, `
found RUNNING done [] active [fetch]
repeated fetch
executed check
`},
		{"-die-after resize-large", true, `
found RUNNING done [fetch] active [check]
repeated check
executed resize-small
executed resize-medium
executed resize-large
`},
		{"-die-after publish", true, `
found RUNNING done [fetch check resize-small resize-medium] active [resize-large]
repeated resize-large
executed publish
`},
		{"", false, `
found RUNNING done [fetch check resize-small resize-medium resize-large] active [publish]
repeated publish
ended: SUCCESS
`},
		{"", false, `
ended already: SUCCESS
`},
	},
	"killed, and reverted by the next": {
		{"-die-after resize-medium", true, `
found PENDING done [] active []
executed fetch
executed check
executed resize-small
executed resize-medium
`},
		{"-fail publish", false, `
found RUNNING done [fetch check resize-small] active [resize-medium resize-large]
repeated resize-medium
executed resize-large
executed publish
reverted publish
reverted resize-small
reverted resize-medium
reverted resize-large
reverted check
reverted fetch
ended: REVERTED
`},
		{"", false, `
ended already: REVERTED
`},
	},
}

// TestResume lets the program live again and again on one directory. A run that is not killed is the control.
func TestResume(t *testing.T) {
	for name, lives := range stories {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for i, l := range lives {
				got, killed := start(t, append([]string{"-dir", dir}, strings.Fields(l.args)...)...)
				if diff := cmp.Diff(strings.TrimPrefix(l.want, "\n"), got); diff != "" {
					t.Errorf("start %d printed (-want +got):\n%s", i+1, diff)
				}
				if killed != l.killed {
					t.Errorf("start %d: killed %v, want %v", i+1, killed, l.killed)
				}
			}
			text, err := os.ReadFile(filepath.Join(dir, "publish"))
			taken := strings.Contains(lives[len(lives)-1].want, "REVERTED")
			if taken && errors.Is(err, os.ErrNotExist) {
				return
			}
			if want := "small lighthouse, medium lighthouse, large lighthouse"; err != nil || taken ||
				string(text) != want {
				t.Errorf("the page has %q (%v), want %q unless it was reverted (%v)", text, err, want, taken)
			}
		})
	}
}

// TestForgetful is the control: without the store the next program does everything again, and what is printed shows it.
func TestForgetful(t *testing.T) {
	dir := t.TempDir()
	if _, killed := start(t, "-dir", dir, "-die-after", "resize-medium"); !killed {
		t.Fatal("it was not killed")
	}
	if err := os.RemoveAll(filepath.Join(dir, "store")); err != nil {
		t.Fatal(err)
	}
	const want = `
found PENDING done [] active []
repeated fetch
repeated check
repeated resize-small
repeated resize-medium
executed resize-large
executed publish
ended: SUCCESS
`
	got, _ := start(t, "-dir", dir)
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), got); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}
