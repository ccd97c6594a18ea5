package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	// peerPython is the interpreter of the system: it alone sees the packages of the system.
	peerPython  = "/usr/bin/python3"
	peerInstall = "apt-get install --no-install-recommends python3-taskflow python3-sqlalchemy-utils"
	// peerLacks is the exit status by which taskflow.py states that something it imports is not installed.
	peerLacks = 3
)

// errNoPeer is that the peer, or what runs it, is not installed.
var errNoPeer = errors.New("the peer is not installed (" + peerInstall + ")")

// peerWork is what the peer is asked to run, with tasks that do nothing.
type peerWork struct {
	// linear, unordered, layers (each task of a layer of ten waits for all of the layer before) or flows
	shape string
	// none, memory or sqlite: with sqlite every change of state is a commit of its own, synced to disk
	backend string
	n       int // tasks; of the shape flows: flows of five tasks, one after the other
	// serial or parallel (two threads). Defaults to serial, which is the peer's default and the faster one here
	engine string
	limit  time.Duration // what the round may take. Defaults to a minute
}

// peerRound is what the peer did in one round. All rates are in tasks a second, those of flows too.
type peerRound struct {
	Peer     string  `json:"peer"`     // name and version
	Finished bool    `json:"finished"` // if not, the limit came first, Why states that and the rates are 0
	Why      string  `json:"why"`
	Tasks    int     `json:"tasks"` // in all flows together
	Run      float64 `json:"run"`   // while the engine runs what is loaded and prepared
	Total    float64 `json:"total"` // from the finished graph to its end: load, compile, prepare and run
}

// peer lets TaskFlow do the work once and gives its rates. It is what flows of Stagepost are measured against: call it
// in turns with them, give both the same dir (the peer makes a folder there and removes it), and report syncs of that
// dir beside them. Starting the interpreter, a warm-up and making the tables take a second or two and are not in the
// rates. Where the peer is not installed, it skips the benchmark and states what to install. What has not finished is
// logged; check Finished before dividing by a rate.
func peer(b *testing.B, dir string, w peerWork) peerRound {
	b.Helper()
	r, err := askPeer(b.Context(), peerPython, dir, w)
	switch {
	case errors.Is(err, errNoPeer):
		b.Skip(err)
	case err != nil:
		b.Fatal(err)
	case !r.Finished:
		b.Logf("%s, %d tasks %s over %s: %s", r.Peer, w.n, w.shape, w.backend, r.Why)
	}
	return r
}

// askPeer runs taskflow.py with that interpreter for one round. The error is errNoPeer if something has to be installed
// first.
func askPeer(ctx context.Context, python, dir string, w peerWork) (peerRound, error) {
	limit := cmp.Or(w.limit, time.Minute)
	// the program minds the limit itself; this is for one that hangs
	ctx, cancel := context.WithTimeout(ctx, limit+30*time.Second)
	defer cancel()
	var out, complaints bytes.Buffer
	c := exec.CommandContext(ctx, python, "taskflow.py", "--shape", w.shape, "--backend", w.backend,
		"--engine", cmp.Or(w.engine, "serial"),
		"--tasks", strconv.Itoa(w.n), "--limit", strconv.FormatFloat(limit.Seconds(), 'f', -1, 64), "--dir", dir)
	c.Stdout, c.Stderr = &out, &complaints
	c.WaitDelay = time.Second
	err := c.Run()
	said := strings.TrimSpace(complaints.String())
	var exit *exec.ExitError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return peerRound{}, fmt.Errorf("%w: %w", errNoPeer, err)
	case errors.As(err, &exit) && exit.ExitCode() == peerLacks:
		return peerRound{}, fmt.Errorf("%w: %s", errNoPeer, said)
	case err != nil:
		return peerRound{}, fmt.Errorf("the peer with %+v: %w: %s", w, err, said)
	}
	var r peerRound
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		return peerRound{}, fmt.Errorf("the peer's answer %q: %w", out.String(), err)
	}
	if r.Finished && (r.Run <= 0 || r.Total <= 0) {
		return peerRound{}, fmt.Errorf("the peer's answer %q has no rates", out.String())
	}
	return r, nil
}

// syncs measures how often a second a page can be appended to a file in dir and synced, for a third of a second. Disks
// of shared machines change by a factor of ten within minutes: rates of durable work mean something only beside this
// one, taken in the same round.
func syncs(b *testing.B, dir string) float64 {
	b.Helper()
	f, err := os.CreateTemp(dir, "syncs-")
	if err != nil {
		b.Fatal(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	page := make([]byte, 4096)
	start := time.Now()
	for n := 1; ; n++ {
		if _, err := f.Write(page); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		if took := time.Since(start); took > time.Second/3 {
			return float64(n) / took.Seconds()
		}
	}
}

// BenchmarkPeer measures TaskFlow alone, in up to three rounds: the medians in tasks a second, and median, least and
// most syncs a second of the disk before and after each round. Layers are few: release 5.0.0 takes exponential time for
// them and does not finish ten of ten.
func BenchmarkPeer(b *testing.B) {
	for _, w := range []peerWork{
		{shape: "linear", backend: "none", n: 1000},
		{shape: "linear", backend: "memory", n: 1000},
		{shape: "linear", backend: "sqlite", n: 200},
		{shape: "unordered", backend: "none", n: 1000},
		{shape: "unordered", backend: "memory", n: 1000},
		{shape: "unordered", backend: "sqlite", n: 200},
		{shape: "layers", backend: "none", n: 40},
		{shape: "layers", backend: "none", n: 100, limit: 10 * time.Second},
		{shape: "flows", backend: "none", n: 200},
		{shape: "flows", backend: "memory", n: 200},
		{shape: "flows", backend: "sqlite", n: 40},
	} {
		b.Run(fmt.Sprintf("%s=%d/%s", w.shape, w.n, w.backend), func(b *testing.B) {
			dir := b.TempDir()
			var run, total []float64
			disk := []float64{syncs(b, dir)}
			for range min(b.N, 3) {
				r := peer(b, dir, w)
				if !r.Finished {
					break
				}
				run, total, disk = append(run, r.Run), append(total, r.Total), append(disk, syncs(b, dir))
			}
			if len(run) > 0 {
				b.ReportMetric(median(run), "run-tasks/s")
				b.ReportMetric(median(total), "total-tasks/s")
			}
			b.ReportMetric(median(disk), "syncs/s")
			b.ReportMetric(slices.Min(disk), "least-syncs/s")
			b.ReportMetric(slices.Max(disk), "most-syncs/s")
			b.ReportMetric(0, "ns/op") // b.N is not what was measured
		})
	}
}

// TestAskPeer has an interpreter that answers as notified, in place of the real one, which need not be installed for
// it.
func TestAskPeer(t *testing.T) {
	for _, c := range []struct {
		name, script string
		want         peerRound
		lacking      bool
		wantErr      string
	}{
		{
			name:   "rates",
			script: `echo '{"peer": "p 1", "finished": true, "tasks": 5, "run": 20.5, "total": 10}'`,
			want:   peerRound{Peer: "p 1", Finished: true, Tasks: 5, Run: 20.5, Total: 10},
		},
		{
			name:   "did not finish",
			script: `echo '{"peer": "p 1", "finished": false, "why": "too slow"}'`,
			want:   peerRound{Peer: "p 1", Why: "too slow"},
		},
		{name: "a package is missing", script: `echo "No module named 'taskflow'" >&2; exit 3`, lacking: true, wantErr: "No module named 'taskflow'"},
		{name: "it fails", script: `echo "disk full" >&2; exit 1`, wantErr: "disk full"},
		{name: "no answer", script: `true`, wantErr: "answer"},
		{name: "no rates", script: `echo '{"finished": true}'`, wantErr: "no rates"},
		{
			name:   "arguments",
			script: `test "$*" = "taskflow.py --shape flows --backend none --engine serial --tasks 5 --limit 60 --dir here" || exit 1; echo '{"why": "ok"}'`,
			want:   peerRound{Why: "ok"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			python := filepath.Join(t.TempDir(), "python3")
			if err := os.WriteFile(python, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			got, err := askPeer(t.Context(), python, "here", peerWork{shape: "flows", backend: "none", n: 5})
			if (err != nil) != (c.wantErr != "") || (err != nil && !strings.Contains(err.Error(), c.wantErr)) {
				t.Fatalf("got error %v, want %q", err, c.wantErr)
			}
			if lacking := errors.Is(err, errNoPeer); lacking != c.lacking {
				t.Errorf("%v: got %t for a lack, want %t", err, lacking, c.lacking)
			}
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
	hanging := filepath.Join(t.TempDir(), "python3")
	if err := os.WriteFile(hanging, []byte("#!/bin/sh\nexec sleep 60\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := askPeer(short, hanging, ".", peerWork{}); err == nil || short.Err() == nil {
		t.Errorf("with one that hangs: got %v and context %v", err, short.Err())
	}
	if _, err := askPeer(t.Context(), filepath.Join(t.TempDir(), "none"), ".", peerWork{}); !errors.Is(err, errNoPeer) {
		t.Errorf("without an interpreter: got %v, want %v", err, errNoPeer)
	}
}
