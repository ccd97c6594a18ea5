package process

import (
	"bufio"
	"os/exec"
	"syscall"
	"testing"
)

// TestTidyEndsSurvivors: commands that outlived their process are ended, also those that left its group; others are
// not.
func TestTidyEndsSurvivors(t *testing.T) {
	ours, others := t.TempDir(), t.TempDir()
	begin := func(temp string) *exec.Cmd {
		c := exec.Command("/bin/sh", "-c", "setsid sleep 600 & echo began; wait")
		c.Env = []string{"PATH=/usr/bin:/bin", markOf(temp)}
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if !bufio.NewScanner(out).Scan() {
			t.Fatal("the command did not begin")
		}
		return c
	}
	survivor, stranger := begin(ours), begin(others)
	if err := (Local{Temp: ours}).Tidy(); err != nil {
		t.Fatal(err)
	}
	if err := survivor.Wait(); err == nil ||
		survivor.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the survivor ended with %v", err)
	}
	if err := syscall.Kill(stranger.Process.Pid, 0); err != nil {
		t.Errorf("a command of another directory: %v", err)
	}
	if err := (Local{Temp: others}).Tidy(); err != nil { // which ends it, and shows that the mark is what counts
		t.Fatal(err)
	}
	_ = stranger.Wait()
}
