package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// cellArgument is the first argument of a process that makes one measurement; the second is a cell as JSON.
const cellArgument = "-cell"

// cell is one measurement.
type cell struct {
	System  string
	Callers int
	Idle    bool          // the time from submission to start instead of the rate
	Poll    time.Duration // the interval of a system that polls
	Count   bool          // the jobs lie between two marks in a trace of system calls
	Starts  int64         // jobs that are submitted to an idle system
	Dir     string
	Window  time.Duration
}

// outcome is what a measurement gives.
type outcome struct {
	Jobs   int64           // jobs that ended in the window
	Rate   float64         // of them, a second
	CPU    time.Duration   // for each job: of this process and all servers
	Starts []time.Duration // from the call that submits to the first line of the first step
	Syncs  float64         // a second, of the same disk right before and after; the caller measures it
	// SyncsPerJob is how often a file was synced for a job of one caller; the caller counts it
	SyncsPerJob float64
}

const (
	// warm is the time before jobs are counted: callers come into step, caches fill.
	warm = 500 * time.Millisecond
	// fewJobs are counted at least, where that ends within lateWindow: systems that take a second for a job.
	fewJobs    = 30
	lateWindow = 15 * time.Second
	// starts is how many jobs are submitted to an idle system, for at most idleWindow; countStarts where syncs are
	// counted.
	starts      = 300
	countStarts = 50
	idleWindow  = 20 * time.Second
)

// serveCell makes one measurement and writes its outcome as JSON.
func serveCell(ctx context.Context, text string, out io.Writer) error {
	var c cell
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	i := slices.IndexFunc(systems, func(y system) bool { return y.name == c.System })
	if i < 0 {
		return fmt.Errorf("not found: system %q", c.System)
	}
	var k clock
	p, err := systems[i].open(ctx, setting{dir: c.Dir, callers: c.Callers, begin: k.begin})
	if err != nil {
		return err
	}
	o, err := measure(ctx, p, c, &k)
	if err := errors.Join(err, p.close()); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(o)
}

func measure(ctx context.Context, p peer, c cell, k *clock) (outcome, error) {
	// what was written while the system was opened is no part of the measurement
	if err := syncDisk(c.Dir); err != nil {
		return outcome{}, err
	}
	if c.Idle {
		all, err := submitIdle(ctx, p, c, k)
		return outcome{Starts: all}, err
	}
	return rate(ctx, p, c)
}

func syncDisk(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

// submitIdle submits one job after the other to an idle system, at random moments, so that a system that polls is not
// met at the same point of its interval each time.
func submitIdle(ctx context.Context, p peer, c cell, k *clock) (all []time.Duration, err error) {
	begin := time.Now()
	if c.Count {
		mark()
		defer mark()
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := int64(1); i <= c.Starts && time.Since(begin) < idleWindow; i++ {
		select {
		case <-time.After(time.Duration(random.Int64N(int64(max(c.Poll, 20*time.Millisecond))))):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		k.take()
		submitted := time.Now()
		if err := p.do(ctx, i); err != nil {
			return nil, err
		}
		at, ok := k.take()
		if !ok {
			return nil, fmt.Errorf("job %d ended and its first step did not begin", i)
		}
		all = append(all, at.Sub(submitted))
	}
	return all, nil
}

// rate lets the callers do one job after the other and counts those that end in the window.
func rate(ctx context.Context, p peer, c cell) (outcome, error) {
	var next, ended atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	failed := make(chan error, c.Callers)
	for range c.Callers {
		wg.Go(func() {
			for !stop.Load() {
				if err := p.do(ctx, next.Add(1)); err != nil {
					failed <- err
					return
				}
				ended.Add(1)
			}
		})
	}
	err := pause(ctx, failed, warm)
	begin, before, used := time.Now(), ended.Load(), treeCPU()
	for err == nil {
		err = pause(ctx, failed, c.Window)
		if ended.Load()-before >= fewJobs || time.Since(begin) > lateWindow {
			break
		}
	}
	took, jobs, spent := time.Since(begin), ended.Load()-before, treeCPU()-used
	stop.Store(true)
	if err != nil { // the others would wait for their jobs
		return outcome{}, err
	}
	wg.Wait()
	if jobs == 0 {
		return outcome{}, fmt.Errorf("no job ended in %v", took)
	}
	return outcome{Jobs: jobs, Rate: float64(jobs) / took.Seconds(), CPU: spent / time.Duration(jobs)}, nil
}

func pause(ctx context.Context, failed <-chan error, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case err := <-failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
