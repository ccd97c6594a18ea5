// Command market measures Stagepost beside other systems on the same machine and in the same run: one fixed unit of
// durable work (J8), and the time from the submission of a job to its start. Each measurement runs in a process of its
// own, with a fresh directory; servers are started for it and stopped after it. It is a module of its own, so that the
// other systems are no dependencies of Stagepost. docs/performance.md has what it measures and the results.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// settings are the flags.
type settings struct {
	dir     string
	rounds  int
	callers []int
	window  time.Duration
	limit   time.Duration
	only    []string
	commit  string
	count   bool
	starts  int64
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 2 && args[0] == cellArgument {
		return serveCell(ctx, args[1], os.Stdout)
	}
	s, err := read(args)
	if err != nil {
		return err
	}
	if err := onDisk(s.dir); err != nil {
		return err
	}
	if s.count {
		if err := hasStrace(); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp(s.dir, "market-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// PostgreSQL refuses to run as root and has to reach its directory as another user
	if err := os.Chmod(dir, 0o711); err != nil {
		return err
	}
	r := &runner{settings: s, dir: dir, progress: os.Stderr}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	return errors.Join(r.all(ctx), r.report(os.Stdout, args))
}

// read reads the flags.
func read(args []string) (settings, error) {
	var s settings
	f := flag.NewFlagSet("market", flag.ContinueOnError)
	f.StringVar(&s.dir, "dir", os.TempDir(), "`folder` on the disk to measure; nothing stays there")
	f.IntVar(&s.rounds, "rounds", 3, "`number` of rounds; medians are printed")
	f.DurationVar(&s.window, "window", 2*time.Second, "`time` in which jobs are counted, for each measurement")
	f.DurationVar(&s.limit, "limit", 10*time.Minute, "`time` after which no measurement begins")
	f.StringVar(&s.commit, "commit", "", "`revision` of Stagepost, for the heading")
	f.BoolVar(&s.count, "syncs", false, "count how often a file is synced for a job, with strace, and measure no times")
	list := f.String("callers", "1,16,128", "`numbers` of concurrent callers")
	only := f.String("only", "", "`names` of systems, separated by commas; defaults to all")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	for _, word := range strings.Split(*list, ",") {
		var n int
		if _, err := fmt.Sscan(word, &n); err != nil || n < 1 || n > 1024 {
			return s, fmt.Errorf("invalid -callers %q: numbers from 1 to 1024, separated by commas", *list)
		}
		s.callers = append(s.callers, n)
	}
	if *only != "" {
		s.only = strings.Split(*only, ",")
	}
	s.starts = starts
	if s.count {
		s.starts = countStarts
	}
	for _, name := range s.only {
		if !slices.ContainsFunc(systems, func(y system) bool { return y.name == name }) {
			return s, fmt.Errorf("not found: system %q; there are %s", name, strings.Join(names(), ", "))
		}
	}
	if s.rounds < 1 || s.window <= 0 || f.NArg() > 0 {
		return s, fmt.Errorf("invalid arguments %q: rounds and window are above 0, and nothing follows the flags", args)
	}
	return s, nil
}

// onDisk refuses a folder in memory, where a sync does nothing.
func onDisk(dir string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return err
	}
	if fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC {
		return fmt.Errorf("%s is in memory, where a sync costs nothing: give a folder on a disk with -dir",
			filepath.Clean(dir))
	}
	return nil
}
