package power

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// variable makes a program the server of a file system; it holds a service as JSON.
const variable = "STAGEPOST_TEST_POWER"

// Options of Mount. The zero value syncs everything and keeps no images.
type Options struct {
	// Ignore are patterns (path.Match) of the base names of files and directories whose syncs do nothing: for controls.
	Ignore []string
	// Every makes an image after each sync.
	Every bool
	// Each and First bound the images of Every: of so many points, one has an image, beginning with this one. Each 0 is
	// each point.
	Each, First int
	// Names brings names to the disk at once, as file systems with a journal may: contents still get there by fsync
	// only. With Every, there is an image before each sync, rename and removal instead.
	Names bool
}

type service struct {
	Dir, Every string
	Ignore     []string
	Names      bool
	Each       int
	First      int
}

// Disk is a mounted file system.
type Disk struct {
	Dir string // where it is mounted

	every  string
	mu     sync.Mutex // guards what follows: one question at a time
	ask    io.WriteCloser
	answer *bufio.Scanner
}

// Main serves a file system if this process was started for that, and then does not return. TestMain calls it first.
func Main() {
	text, asked := os.LookupEnv(variable)
	if !asked {
		return
	}
	var s service
	err := json.Unmarshal([]byte(text), &s)
	if err == nil {
		err = s.serve()
	}
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve mounts the file system and answers questions until there are no more: the test has ended, however it did.
func (s *service) serve() error {
	t := &tree{ignore: s.Ignore, every: s.Every, atOnce: s.Names, each: max(1, s.Each), first: s.First}
	t.root = t.node(syscall.S_IFDIR | 0o755)
	second := time.Second
	server, err := fs.Mount(s.Dir, t.root, &fs.Options{
		MountOptions: fuse.MountOptions{DirectMount: true, AllowOther: os.Geteuid() == 0, FsName: "power",
			Name: "power", DisableXAttrs: true},
		EntryTimeout: &second, AttrTimeout: new(time.Duration), NegativeTimeout: new(time.Duration),
	})
	if err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	defer func() { _ = server.Unmount() }()
	fmt.Println("ok")
	for questions := bufio.NewScanner(os.Stdin); questions.Scan(); {
		t.mu.Lock()
		err := t.root.image(questions.Text())
		t.mu.Unlock()
		if err != nil {
			fmt.Println("error", err)
			continue
		}
		fmt.Println("ok")
	}
	return nil
}

// Mount mounts a file system until the end of the test. It needs root or the package fuse3, and /dev/fuse.
func Mount(t testing.TB, o Options) *Disk {
	t.Helper()
	d := &Disk{Dir: t.TempDir()}
	if o.Every {
		d.every = inMemory(t)
	}
	text, err := json.Marshal(service{Dir: d.Dir, Every: d.every, Ignore: o.Ignore, Names: o.Names, Each: o.Each,
		First: o.First})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), variable+"="+string(text)), os.Stderr
	if d.ask, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	d.answer = bufio.NewScanner(out)
	t.Cleanup(func() {
		_ = syscall.Unmount(d.Dir, syscall.MNT_DETACH) // also when something has it open still
		d.ask.Close()
		kill := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		_ = cmd.Wait()
	})
	if err := d.answered(); err != nil {
		t.Fatalf("file system in %s: %v (is /dev/fuse there, and the package fuse3 installed?)", d.Dir, err)
	}
	return d
}

// inMemory gives a directory for images, in memory if the system has such a directory: tests restart on them, and a
// real disk makes each sync wait.
func inMemory(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "power")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (d *Disk) answered() error {
	if !d.answer.Scan() {
		return errors.Join(errors.New("its process has ended"), d.answer.Err())
	}
	if text := d.answer.Text(); text != "ok" {
		return errors.New(text)
	}
	return nil
}

// Image writes what a power cut leaves now to a new directory and gives that.
func (d *Disk) Image(t testing.TB) string {
	t.Helper()
	to := filepath.Join(inMemory(t), "image")
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := fmt.Fprintln(d.ask, to)
	if err == nil {
		err = d.answered()
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// Images gives what power cuts at each point so far leave, in order. It needs Options.Every.
func (d *Disk) Images(t testing.TB) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(d.every, "*"))
	if err != nil || d.every == "" {
		t.Fatalf("images in %q: %v", d.every, err)
	}
	slices.Sort(found)
	return found
}

// Lost gives the names of the files below a directory whose content an image lacks, and the directories that it lacks.
func Lost(t testing.TB, dir, image string) (lost []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(name, dir)
		there := filepath.Join(image, rel)
		switch {
		case e.IsDir():
			if _, err := os.Stat(there); err != nil {
				lost = append(lost, rel+"/")
			}
		case e.Type().IsRegular():
			want, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			if got, err := os.ReadFile(there); err != nil || string(got) != string(want) {
				lost = append(lost, rel)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lost
}
