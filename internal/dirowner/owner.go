// Package dirowner locks a data directory for one process.
package dirowner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Owner is the lock on a data directory. The kernel releases it when the process ends; the text in the file only
// identifies the process.
type Owner struct{ file *os.File }

// InUse is the error of [Take] for a directory that another process has. Its kind is Unavailable.
type InUse struct {
	Dir     string
	Process map[string]string // pid, host, start and address, as far as they are known
}

func (e *InUse) Error() string {
	who := "another process"
	if len(e.Process) > 0 {
		var known []string
		for _, key := range []string{"pid", "host", "start", "address"} {
			known = append(known, key+"="+e.Process[key])
		}
		who = strings.Join(known, " ")
	}
	return e.Dir + " is in use by " + who
}

// Take takes the lock, or returns InUse with the process that has it. With the lock it calls address, whose result
// it notes in the file. An error of address is returned as it is.
func Take(dir string, address func() (string, error)) (*Owner, error) {
	f, err := os.OpenFile(filepath.Join(dir, "owner"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, &job.Error{Op: "open", Kind: job.Unavailable, Err: err}
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		text, _ := io.ReadAll(io.LimitReader(f, 4096))
		f.Close()
		used := &InUse{Dir: dir, Process: map[string]string{}}
		for _, field := range strings.Fields(string(text)) {
			if key, value, ok := strings.Cut(field, "="); ok {
				used.Process[key] = value
			}
		}
		return nil, &job.Error{Op: "open", Kind: job.Unavailable, Err: used}
	}
	err = write(f, "") // what a killed process left
	at := ""
	if err == nil {
		at, err = address()
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	host, _ := os.Hostname()
	text := fmt.Sprintf("pid=%d\nhost=%s\nstart=%s\naddress=%s\n", os.Getpid(), host,
		time.Now().UTC().Format(time.RFC3339), at)
	if err := write(f, text); err != nil {
		f.Close()
		return nil, &job.Error{Op: "open", Kind: job.Unavailable, Err: err}
	}
	return &Owner{f}, nil
}

func write(f *os.File, text string) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// Close releases the directory. The file stays: its removal would let two processes lock two files of the same
// name.
func (l *Owner) Close() error { return errors.Join(write(l.file, ""), l.file.Close()) }
