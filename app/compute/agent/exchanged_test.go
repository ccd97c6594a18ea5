package agent

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/sandbox"
)

// exchange is what a command without confinement does to the agent's files around its directory. dir is its directory,
// own the agent's around it, and foreign a directory of another user with the file key in it.
var exchanges = []struct {
	name string
	do   func(dir, own, foreign string) error
	kept bool // its own files are there all the same
}{
	{"nothing", func(string, string, string) error { return nil }, true},
	{"job to a link", func(dir, own, foreign string) error {
		return both(os.Rename(dir, own+"/away"), os.Symlink(foreign, dir))
	}, true},
	{"job to a directory of somebody else", func(dir, own, foreign string) error {
		return both(os.Rename(dir, own+"/away"), os.Rename(foreign, dir))
	}, true},
	{"job removed", func(dir, _, _ string) error { return os.RemoveAll(dir) }, false},
	{"all removed", func(_, own, _ string) error { return os.RemoveAll(own) }, false},
	{"all moved away", func(_, own, _ string) error { return os.Rename(own, own+".away") }, true},
	{"all to a link", func(_, own, foreign string) error {
		return both(os.Rename(own, own+".away"), os.Symlink(foreign, own))
	}, true},
	{"outputs to links", func(_, own, foreign string) error {
		return both(os.Remove(own+"/stdout"), os.Symlink(foreign+"/key", own+"/stdout"),
			os.Remove(own+"/stderr"), os.Symlink("../../"+filepath.Base(foreign)+"/key", own+"/stderr"))
	}, true},
	{"outputs to keys", func(_, own, foreign string) error {
		return both(os.Link(foreign+"/key", own+"/x"), os.Rename(own+"/x", own+"/stdout"), os.Remove(own+"/stderr"))
	}, true},
	{"outputs to pipes", func(_, own, _ string) error {
		return both(os.Remove(own+"/stdout"), syscall.Mkfifo(own+"/stdout", 0o600), os.Remove(own+"/stderr"),
			os.Mkdir(own+"/stderr", 0o700))
	}, true},
	{"the agent's files to links", func(_, own, foreign string) error {
		var all []error
		for _, name := range []string{exitName, exitName + ".new", zipName, resultsName, resultsName + ".new"} {
			all = append(all, os.Symlink(foreign+"/key", own+"/"+name))
		}
		return both(all...)
	}, true},
	{"the agent's files to directories", func(_, own, _ string) error {
		var all []error
		for _, name := range []string{exitName, exitName + ".new", resultsName, resultsName + ".new"} {
			all = append(all, os.MkdirAll(own+"/"+name+"/x", 0o700))
		}
		return both(all...)
	}, true},
}

func both(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestExchanged: whatever a command puts instead of its directory, its outputs and the agent's own files, nothing of
// another user is read or written, the payload ends at once, and what it wrote itself comes back. Where it runs and
// after it has ended, and whether the agent lives on or ends in the middle.
func TestExchanged(t *testing.T) {
	for _, c := range exchanges {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/crash %v", c.name, crash), func(t *testing.T) {
				t.Parallel()
				exchanged(t, c.do, c.kept, crash)
			})
		}
	}
}

func exchanged(t *testing.T, do func(dir, own, foreign string) error, kept, crash bool) {
	foreign := filepath.Join(t.TempDir(), "foreign")
	if err := os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(foreign, "key"), []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := os.Open(filepath.Join(foreign, "key"))
	if err != nil {
		t.Fatal(err)
	}
	defer key.Close()
	begun, goOn := make(chan error, 1), make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	defer release()
	w := newHarness(t, func(ctx context.Context, c *sandbox.Command) (sandbox.Ending, error) {
		fmt.Fprintln(c.Stdout, "hello")
		fmt.Fprintln(c.Stderr, "oh")
		begun <- both(os.WriteFile(filepath.Join(c.Dir, "made.txt"), []byte("made"), 0o600),
			do(c.Dir, filepath.Dir(c.Dir), foreign))
		fmt.Fprintln(c.Stdout, "after")
		<-goOn
		if crash {
			<-ctx.Done()
		}
		return sandbox.Ending{Exit: 0, Sentence: "it ended"}, nil
	}, nil)
	p := parcel(ticket(), "true")
	w.submit(w.app, p)
	if err := <-begun; err != nil {
		t.Fatal(err)
	}
	look := func(when string) (all map[string]string) {
		t.Helper()
		for _, read := range []func() (io.ReadCloser, error){
			func() (io.ReadCloser, error) { return w.app.Partial(t.Context(), handle(p.Ticket)) },
			func() (io.ReadCloser, error) { return w.app.Results(t.Context(), handle(p.Ticket)) },
		} {
			r, err := read()
			if err != nil {
				continue
			}
			all = unzip(t, r, err)
			for name, text := range all {
				if strings.Contains(text, "hunter2") || name == "key" {
					t.Errorf("%s: %s has a key of somebody else", when, name)
				}
			}
		}
		for _, name := range []string{stdoutName, stderrName} {
			r, err := w.app.Log(t.Context(), handle(p.Ticket), name, 0, false)
			if err != nil {
				continue
			}
			text, err := io.ReadAll(r)
			r.Close()
			if err != nil || strings.Contains(string(text), "hunter2") {
				t.Errorf("%s: %s is %q, %v", when, name, text, err)
			}
		}
		return all
	}
	look("while it runs")
	release()
	if crash {
		w.stop()
		w.start(nil)
	}
	n := w.end(p.Ticket)
	if n.Ending == nil || !crash && n.Ending.Exit != 0 {
		t.Errorf("got %+v", n.Ending)
	}
	all := look("at the end")
	if !crash {
		if all[stdoutName] != "hello\nafter\n" || all[stderrName] != "oh\n" {
			t.Errorf("got %q and %q", all[stdoutName], all[stderrName])
		}
		if kept && all["made.txt"] != "made" {
			t.Errorf("got %v, want its own file", slices.Sorted(maps.Keys(all)))
		}
		if _, ok := all[exitName]; !ok {
			t.Errorf("got %v, want %s", slices.Sorted(maps.Keys(all)), exitName)
		}
	}
	if r := dataOfPayload(w, p.Ticket); r.Results == nil {
		t.Error("its results are not known")
	}
	text, err := io.ReadAll(io.NewSectionReader(key, 0, 100))
	if err != nil || string(text) != "hunter2" {
		t.Errorf("the key is %q, %v", text, err)
	}
	if err := w.app.Forget(t.Context(), handle(p.Ticket)); err != nil {
		t.Error(err)
	}
	if info, err := key.Stat(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key is %v, %v", info.Mode(), err)
	}
}

// dataOfPayload reads what the record of a payload states.
func dataOfPayload(w *harness, ticket compute.Ticket) Data {
	w.Helper()
	j, err := w.store.Get(w.Context(), idOf(ticket))
	if err != nil {
		w.Fatal(err)
	}
	return dataOf(&j)
}
