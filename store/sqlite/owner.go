package sqlite

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

// owner is the lock on a data directory. The kernel releases it when the process ends; the text in the file only
// identifies the process.
type owner struct{ file *os.File }

// own takes the lock, or returns kind Unavailable with the name of the process that has it.
func own(dir, address string) (*owner, error) {
	f, err := os.OpenFile(filepath.Join(dir, "owner"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, &job.Error{Op: "open", Kind: job.Unavailable, Err: err}
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		text, _ := io.ReadAll(io.LimitReader(f, 4096))
		f.Close()
		who := strings.Join(strings.Fields(string(text)), " ")
		if who == "" {
			who = "another process"
		}
		return nil, job.Errorf(job.Unavailable, "open", "", "%s is in use by %s", dir, who)
	}
	host, _ := os.Hostname()
	text := fmt.Sprintf("pid=%d\nhost=%s\nstart=%s\naddress=%s\n", os.Getpid(), host,
		time.Now().UTC().Format(time.RFC3339), address)
	if err := write(f, text); err != nil {
		f.Close()
		return nil, &job.Error{Op: "open", Kind: job.Unavailable, Err: err}
	}
	return &owner{f}, nil
}

func write(f *os.File, text string) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// release releases the directory. The file stays: its removal would let two processes lock two files of the same
// name.
func (o *owner) release() error {
	return errors.Join(write(o.file, ""), o.file.Close())
}
