package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// cellLimit is what one measurement may take, with the start and the end of its servers.
const cellLimit = 90 * time.Second

// runner makes all measurements.
type runner struct {
	settings
	dir      string
	progress io.Writer
	begun    time.Time
	others   float64 // the part of the processors that other processes used, from 0 to 1
	skipped  map[string]string
	failed   map[string][]string
	rates    map[key][]outcome // by round; without Rate if the measurement of that round failed
	idle     map[string]outcome
	probes   []float64
	cut      string // why something was not measured
	cells    int
}

// key names the measurements of a rate that are repeated in every round.
type key struct {
	system  string
	callers int
}

// prepare finds what is missing and makes what measurements copy.
func (r *runner) prepare(ctx context.Context) error {
	if len(r.dir) > 70 {
		return fmt.Errorf("%s is too long for the path of a socket: give a shorter -dir", r.dir)
	}
	r.begun = time.Now()
	r.skipped, r.failed = map[string]string{}, map[string][]string{}
	r.rates, r.idle = map[key][]outcome{}, map[string]outcome{}
	postgres := false
	for _, y := range r.chosen() {
		if lack := y.lacks(); lack != "" {
			r.skipped[y.name] = lack
			fmt.Fprintf(r.progress, "%s is skipped: %s\n", y.name, lack)
			continue
		}
		postgres = postgres || slices.Contains(y.needs, "postgres")
	}
	if postgres {
		return initPostgres(ctx, r.dir)
	}
	return nil
}

// chosen are the systems that the flags name.
func (r *runner) chosen() (all []system) {
	for _, y := range systems {
		if len(r.only) == 0 || slices.Contains(r.only, y.name) {
			all = append(all, y)
		}
	}
	return all
}

// all makes the measurements, the systems in turns, so that what is compared was measured within a minute.
func (r *runner) all(ctx context.Context) error {
	before, err := used()
	if err != nil {
		return err
	}
	begin := time.Now()
	for round := range r.rounds {
		for _, c := range r.callers {
			for _, y := range r.chosen() {
				if y.poll == 0 && !r.count {
					r.one(ctx, y, cell{Callers: c}, round)
				}
			}
		}
		for _, y := range r.chosen() {
			if round == 0 && r.idles(y) {
				r.one(ctx, y, cell{Callers: 1, Idle: true, Poll: y.poll, Count: r.count, Starts: r.starts}, round)
			}
		}
	}
	after, err := used()
	r.others = others(before, after, time.Since(begin))
	return err
}

// idles reports whether the system is measured idle: the bare writers are only where syncs are counted, and systems
// with default intervals are not there.
func (r *runner) idles(y system) bool {
	if r.count {
		return y.poll == 0
	}
	return !y.rate
}

// one makes a measurement, unless its system is missing or failed twice.
func (r *runner) one(ctx context.Context, y system, c cell, round int) {
	c.System, c.Window = y.name, r.window
	what := fmt.Sprintf("round %d, %d callers, %s", round+1, c.Callers, y.name)
	if c.Idle {
		what = "idle, " + y.name
	}
	if r.skipped[y.name] != "" || len(r.failed[y.name]) > 1 || r.cut != "" {
		return
	}
	if time.Since(r.begun) > r.limit {
		r.cut = fmt.Sprintf("the limit of %v came before %s", r.limit, what)
		return
	}
	o, err := r.measured(ctx, c)
	if ctx.Err() != nil {
		r.cut = "interrupted during " + what
		return
	}
	if err != nil {
		r.failed[y.name] = append(r.failed[y.name], what+": "+err.Error())
		fmt.Fprintf(r.progress, "%s: %v\n", what, err)
		return
	}
	if c.Idle {
		r.idle[y.name] = o
		if c.Count {
			fmt.Fprintf(r.progress, "%s: %.1f syncs a job\n", what, o.SyncsPerJob)
			return
		}
		fmt.Fprintf(r.progress, "%s: %v at the median\n", what, percentile(o.Starts, 50))
		return
	}
	k := key{y.name, c.Callers}
	for len(r.rates[k]) <= round {
		r.rates[k] = append(r.rates[k], outcome{})
	}
	r.rates[k][round] = o
	fmt.Fprintf(r.progress, "%s: %.0f jobs/s, %.0f syncs/s\n", what, o.Rate, o.Syncs)
}

// measured runs a measurement in a process and a directory of its own, between two measurements of the disk.
func (r *runner) measured(ctx context.Context, c cell) (o outcome, err error) {
	r.cells++
	c.Dir = filepath.Join(r.dir, fmt.Sprint(r.cells))
	if err := os.Mkdir(c.Dir, 0o700); err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.Dir)) }()
	before, err := syncs(r.dir)
	if err != nil {
		return o, err
	}
	raw, err := r.process(ctx, c)
	if err != nil {
		return o, err
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return o, fmt.Errorf("the outcome %q: %w", raw, err)
	}
	if c.Count {
		counted, err := countSyncs(traceFile(c.Dir))
		o.SyncsPerJob = float64(counted) / float64(len(o.Starts))
		return o, errors.Join(err, os.Remove(traceFile(c.Dir)))
	}
	after, err := syncs(r.dir)
	o.Syncs = (before + after) / 2
	r.probes = append(r.probes, before, after)
	return o, err
}

// process runs this program for one measurement. When ctx ends or the time is over, it is asked to end, which stops its
// servers; if it does not, it is killed, and the kernel ends its servers.
func (r *runner) process(ctx context.Context, c cell) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, cellLimit)
	defer cancel()
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var out, complaints bytes.Buffer
	args := []string{program, cellArgument, string(text)}
	if c.Count {
		args = append(strace(c.Dir), args...)
	}
	p := exec.CommandContext(ctx, args[0], args[1:]...)
	p.Stdout, p.Stderr = &out, &complaints
	p.Cancel = func() error { return p.Process.Signal(syscall.SIGTERM) }
	p.WaitDelay = 25 * time.Second
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := p.Run(); err != nil {
		return nil, fmt.Errorf("%s (%w)", strings.TrimSpace(complaints.String()), errors.Join(err, ctx.Err()))
	}
	return out.Bytes(), nil
}
