package flowfile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// endSurvivors kills the commands below a directory that outlived the process which began them, with all that they began and gave their environment to: else they would go on
// beside their repetition. They are known by the mark in their environment, as only processes of the same user can be read.
func endSurvivors(temp string) error {
	if temp == "" {
		return nil
	}
	mark := []byte("\x00" + markOf(temp) + "\x00")
	for range 200 { // each look may find what was begun since the last one
		left, err := filepath.Glob("/proc/[0-9]*/environ")
		if err != nil {
			return err
		}
		alive := 0
		for _, name := range left {
			env, err := os.ReadFile(name)
			if err != nil || !bytes.Contains(append(append([]byte{0}, env...), 0), mark) { // it has ended, or is somebody else's
				continue
			}
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil && pid != os.Getpid() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				alive++
			}
		}
		if alive == 0 {
			return nil
		}
		time.Sleep(5 * time.Millisecond) // a killed process takes a moment to go
	}
	return fmt.Errorf("commands of %s do not end", temp)
}
