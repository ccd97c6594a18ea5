package slurm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
)

const foreignKey = "hunter2"

// exchanges are what a payload does to its directory, own. foreign is a directory of another user beside it, with the
// file key in it.
var exchanges = []struct {
	name string
	do   func(own, foreign string) error
	gone bool // its directory is not there any more
	work bool // its own files come back
}{
	{"nothing", func(string, string) error { return nil }, false, true},
	{"all to a link", func(own, foreign string) error {
		return errors.Join(os.Rename(own, own+"x"), os.Symlink(filepath.Base(foreign), own))
	}, true, false},
	{"all to a directory of somebody else", func(own, foreign string) error {
		for _, name := range []string{ticketFile, sentFile, slurmFile} {
			if err := os.Rename(filepath.Join(own, name), filepath.Join(foreign, name)); err != nil {
				return err
			}
		}
		return errors.Join(os.Rename(own, own+"x"), os.Rename(foreign, own))
	}, true, false},
	{"all removed", func(own, _ string) error { return os.RemoveAll(own) }, true, false},
	{"files to a link", func(own, foreign string) error {
		work := filepath.Join(own, workDir)
		return errors.Join(os.Rename(work, work+"x"), os.Symlink(foreign, work))
	}, false, false},
	{"files to a link within", func(own, _ string) error {
		work := filepath.Join(own, workDir)
		return errors.Join(os.Rename(work, work+"x"), os.Symlink(".", work))
	}, false, false},
	{"files to a directory of somebody else", func(own, foreign string) error {
		work := filepath.Join(own, workDir)
		return errors.Join(os.Rename(work, work+"x"), os.Rename(foreign, work))
	}, false, false},
	{"outputs to links", func(own, foreign string) error {
		return replace(own, func(name string) error { return os.Symlink(filepath.Join(foreign, "key"), name) })
	}, false, true},
	{"outputs to links that lead up", func(own, foreign string) error {
		to := "../" + filepath.Base(foreign) + "/key"
		return replace(own, func(name string) error { return os.Symlink(to, name) })
	}, false, true},
	{"outputs to keys", func(own, foreign string) error {
		return replace(own, func(name string) error { return os.Link(filepath.Join(foreign, "key"), name) })
	}, false, true},
	{"outputs to pipes", func(own, _ string) error {
		return replace(own, func(name string) error { return syscall.Mkfifo(name, 0o600) })
	}, false, true},
	{"outputs to directories", func(own, _ string) error {
		return replace(own, func(name string) error { return os.Mkdir(name, 0o700) })
	}, false, true},
}

// replace puts something else instead of each file that the server reads or writes.
func replace(own string, with func(name string) error) error {
	for _, name := range []string{outFile, errFile, exitFile, slurmLog, killedFile, endFile} {
		name = filepath.Join(own, name)
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := with(name); err != nil {
			return err
		}
	}
	return nil
}

// TestExchanged: whatever a payload puts instead of its directory, its files and its output, the server reads, writes
// and removes nothing of another user, while the payload runs and when it has ended.
func TestExchanged(t *testing.T) {
	for _, c := range exchanges {
		for _, when := range []string{"RUNNING", "COMPLETED"} {
			t.Run(c.name+"/"+when, func(t *testing.T) {
				t.Parallel()
				f, o := newFake(t)
				o.Poll = time.Nanosecond // each question is asked anew
				s := open(t, o)
				p := script("swap_1", "exit 0")
				submit(t, s, p)
				own, foreign := filepath.Join(o.Dir, "swap_1.1"), filepath.Join(o.Dir, "other.1")
				played(t, own, foreign)
				key, err := os.Open(filepath.Join(foreign, "key"))
				if err != nil {
					t.Fatal(err)
				}
				defer key.Close()
				if err := c.do(own, foreign); err != nil {
					t.Fatal(err)
				}
				f.set("swap_1", func(j *fakeJob) { j.State = when })
				exchanged(t, f, s, p, c.gone, c.work)
				text, err := io.ReadAll(key)
				info, sterr := key.Stat()
				if err != nil || sterr != nil || string(text) != foreignKey || info.Mode().Perm() != 0o600 {
					t.Errorf("the key of somebody else is %q, %v, %v", text, info, err)
				}
				if into := strings.HasPrefix(c.name, "files to a directory"); nlink(info) == 0 && !into {
					// what a payload moved into its own directory goes with it
					t.Error("the key of somebody else was removed")
				}
			})
		}
	}
}

func nlink(info os.FileInfo) uint64 { return uint64(info.Sys().(*syscall.Stat_t).Nlink) }

// played writes what batch.sh and run.sh write, and a directory of another user.
func played(t *testing.T, own, foreign string) {
	t.Helper()
	for name, text := range map[string]string{
		own + "/claim/by": "101\n", own + "/stdout": "hello\n", own + "/stderr": "oh\n", own + "/work/made": "made",
		own + "/slurm.out":     "",
		own + "/exit.json":     `{"exit":0,"signal":0,"cause":"","started":1700000000,"finished":1700000001,"place":"n1"}`,
		foreign + "/key":       foreignKey,
		foreign + "/work/key2": foreignKey,
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err !=
			nil {
			t.Fatal(err)
		}
	}
}

// exchanged calls all that reads or writes, and holds what comes back against what is the payload's own.
func exchanged(t *testing.T, f *fakeSlurm, s *Slurm, p *compute.Parcel, gone, work bool) {
	t.Helper()
	ctx := context.Background()
	h := handle(p)
	all := ""
	read := func(r io.ReadCloser, err error) {
		if err == nil {
			text, err := io.ReadAll(r)
			all += fmt.Sprint(string(text), err, r.Close())
		}
	}
	n, err := s.Query(ctx, h)
	switch {
	case gone && n.Standing != compute.Lost:
		t.Errorf("its directory is gone: got %+v, %v", n, err)
	case gone && f.state().Jobs[0].State == "RUNNING":
		t.Error("its directory is gone, and Slurm goes on with it")
	case !gone && err == nil && n.Standing != compute.Works && n.Standing != compute.Ended:
		t.Errorf("got %+v", n)
	}
	read(s.Log(ctx, h, outFile, 0, false))
	read(s.Log(ctx, h, errFile, 0, false))
	r, err := s.Partial(ctx, h)
	if gone != errors.Is(err, compute.ErrNoPayload) {
		t.Errorf("partial results: %v", err)
	}
	if err == nil {
		r.Close()
		entries := strings.Join(unzip(t, s.Partial, p), "\n")
		if all += entries; strings.Contains(entries, "made=made") != work {
			t.Errorf("partial results: got %q, want its own files: %t", entries, work)
		}
	}
	if n.Standing == compute.Ended {
		all += strings.Join(unzip(t, s.Results, p), "\n")
	}
	if strings.Contains(all, foreignKey) || strings.Contains(all, "secret_sha256") {
		t.Errorf("it gives what is not the payload's: %q", all)
	}
	if gone {
		if n := submit(t, s, p); n.Standing != compute.Lost || f.state().Sent != 1 {
			t.Errorf("a repetition: %+v, %d were handed over", n, f.state().Sent)
		}
	}
	if err := errors.Join(s.Kill(ctx, h), s.Forget(ctx, h)); err != nil && !errors.Is(err, compute.ErrNoPayload) {
		t.Error(err)
	}
}
