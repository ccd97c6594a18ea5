package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test program make measurements, which run in a process of their own.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == cellArgument {
		if err := run(context.Background(), os.Args[1:]); err != nil {
			_, _ = os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestSystems lets every system that is installed do jobs, idle and with two callers: each gives rates and times, and
// no process and no file stays.
func TestSystems(t *testing.T) {
	for _, y := range systems {
		t.Run(y.name, func(t *testing.T) {
			if lack := y.lacks(); lack != "" {
				t.Skip(lack)
			}
			if y.poll > 0 {
				t.Skip("the same system with slower settings")
			}
			s := settings{
				rounds: 1, callers: []int{2}, window: 50 * time.Millisecond, limit: time.Minute,
				only: []string{y.name}, starts: 5,
			}
			r := &runner{settings: s, dir: shortDir(t), progress: t.Output()}
			if err := r.prepare(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := r.all(t.Context()); err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			if err := r.report(&b, nil); err != nil || r.cut != "" {
				t.Fatalf("%v\n%s", err, b.String())
			}
			k := key{y.name, 2}
			if len(r.rates[k]) != 1 || r.rates[k][0].Rate <= 0 || r.rates[k][0].CPU < 0 || r.rates[k][0].Syncs <= 0 {
				t.Errorf("the rates are %+v", r.rates)
			}
			o := r.idle[y.name]
			if !y.rate && (len(o.Starts) == 0 || slices.Min(o.Starts) <= 0) {
				t.Errorf("the times are %v", o.Starts)
			}
			left, err := os.ReadDir(r.dir)
			if err != nil || slices.ContainsFunc(left, func(e os.DirEntry) bool { return e.Name() != template }) {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// shortDir is a directory that another user can pass and whose path is short enough for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "market-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestMissing states what to install for a system that is missing, and measures the others.
func TestMissing(t *testing.T) {
	programs["missing"] = func() (string, error) { return "", errors.New("missing is not installed (get it)") }
	systems = append(systems, system{name: "absent", title: "absent %v", needs: []string{"missing"}})
	t.Cleanup(func() {
		delete(programs, "missing")
		systems = systems[:len(systems)-1]
	})
	r := &runner{settings: settings{rounds: 1, callers: []int{1}, only: []string{"absent"}}, dir: t.TempDir(),
		progress: t.Output()}
	if err := r.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.all(t.Context()); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := r.report(&b, nil); err != nil {
		t.Error(err)
	}
	if want := "not measured: `absent`: missing is not installed (get it)"; !strings.Contains(b.String(), want) {
		t.Errorf("the report has no %q:\n%s", want, b.String())
	}
}

// failing is a system whose jobs fail.
type failing struct{}

func (failing) do(context.Context, int64) error { return errors.New("no job today") }
func (failing) close() error                    { return nil }

// TestFailing reports a system that fails, and does not count its jobs.
func TestFailing(t *testing.T) {
	for _, idle := range []bool{false, true} {
		c := cell{Callers: 3, Idle: idle, Starts: 1, Dir: t.TempDir(), Window: time.Minute}
		if o, err := measure(t.Context(), failing{}, c, &clock{}); err == nil || o.Jobs != 0 || len(o.Starts) != 0 {
			t.Errorf("idle %v: %+v, %v", idle, o, err)
		}
	}
	r := &runner{settings: settings{callers: []int{1}}}
	r.failed = map[string][]string{"bare": {"idle: no job today\nat all"}}
	var b strings.Builder
	if err := r.report(&b, nil); err == nil || !strings.Contains(b.String(), "- failed: `bare`, idle: no job today\n") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// TestReport compares the medians and ratios: a ratio is between measurements of the same round.
func TestReport(t *testing.T) {
	r := &runner{
		settings: settings{callers: []int{1, 16}, only: []string{"stagepost", "bare", "river"}, limit: time.Minute},
		others:   0.04, begun: time.Now(), probes: []float64{800, 8000, 80},
		rates: map[key][]outcome{
			{"stagepost", 1}:  {{Rate: 10}, {Rate: 20}, {Rate: 40}},
			{"river", 1}:      {{Rate: 10}, {}, {Rate: 5}}, // the second round failed
			{"stagepost", 16}: {{Rate: 1000, CPU: 500 * time.Microsecond}},
			{"river", 16}:     {{Rate: 80, CPU: 4 * time.Millisecond}},
		},
		idle: map[string]outcome{"river": {Starts: []time.Duration{3e6, 1e6, 2e6}}},
		cut:  "interrupted during round 2",
	}
	var b strings.Builder
	if err := r.report(&b, []string{"-rounds", "3"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"`go -C bench/market run . -rounds 3`",
		"Sync probe, one caller: 800 a second at the median, 80 to 8000.",
		"Quiet machine: other processes used 4 % of the processors during the run.",
		"| sync probe: 8 syncs of one caller | 100 | | | |\n",
		"| **Stagepost**, embedded SQLite | 20 | 1000 | 1 | 0.50 |\n",
		", one resumable job | 7.5 | 80 | 4.5, 12 | 4.00 |\n",
		"| bare group commit on SQLite, the same rows, no engine | - | - | -, - | - |\n",
		", one resumable job | 2.00 | 3.00 | 3 |\n",
		"- incomplete: interrupted during round 2\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report has no %q", want)
		}
	}
	if t.Failed() {
		t.Log(b.String())
	}
}

// TestRatioOfBusyMachine: a ratio of few rounds, or of rounds that differ, is marked. Control: not on a quiet machine.
func TestRatioOfBusyMachine(t *testing.T) {
	busy, calm := &runner{others: 0.5}, &runner{others: 0.04}
	for _, c := range []struct {
		rounds []float64
		want   string
	}{{nil, "-"}, {[]float64{4, 4}, "4.0?"}, {[]float64{4, 4.5, 3.6}, "4.0"}, {[]float64{4, 5, 3.6}, "4.0?"}} {
		if got := busy.ratio(c.rounds); got != c.want {
			t.Errorf("%v: %s, want %s", c.rounds, got, c.want)
		}
		if got := calm.ratio(c.rounds); got != strings.TrimSuffix(c.want, "?") {
			t.Errorf("%v on a quiet machine: %s", c.rounds, got)
		}
	}
	var b strings.Builder
	busy.begun = time.Now()
	if busy.heading(&b, nil); !strings.Contains(b.String(), "Rates and latencies are no results.") {
		t.Errorf("the heading: %s", b.String())
	}
}

// TestFlags refuses what cannot be measured.
func TestFlags(t *testing.T) {
	s, err := read([]string{"-only", "river,bare", "-callers", "2,3"})
	if err != nil || len(s.only) != 2 || len(s.callers) != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, bad := range []string{
		"-callers=0", "-callers=a", "-callers=9999", "-only=nothing", "-rounds=0", "-window=0", "more",
	} {
		if _, err := read([]string{bad}); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	if err := onDisk("/dev/shm"); err == nil {
		t.Error("a folder in memory is accepted")
	}
	if err := onDisk("."); err != nil {
		t.Errorf("the control, the folder of the source: %v", err)
	}
}

// TestServerStops ends a server by its process, and reports what one printed that ended by itself.
func TestServerStops(t *testing.T) {
	s, err := startServer(t.TempDir(), syscall.SIGTERM, nil, "/bin/sleep", "600")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if err := s.cmd.Process.Signal(syscall.Signal(0)); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("the process still runs: %v", err)
	}
	s, err = startServer(t.TempDir(), syscall.SIGTERM, nil, "/bin/sh", "-c", "echo no such disk; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	err = s.ready(t.Context(), func(context.Context) error { return errors.New("no answer") })
	if err == nil || !strings.Contains(err.Error(), "no such disk") {
		t.Errorf("a server that ends at once: %v", err)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}

// TestCountCalls counts what is between the marks, of whichever process.
func TestCountCalls(t *testing.T) {
	const trace = `1 fsync(3) = 0
2 fsync(-1) = -1 EBADF (Bad file descriptor)
1 fdatasync(4 <unfinished ...>
3 fsync(5) = 0
1 <... fdatasync resumed>) = 0
2 fsync(-1) = -1 EBADF (Bad file descriptor)
3 fsync(5) = 0
`
	if n, err := countCalls(trace); err != nil || n != 2 {
		t.Errorf("%d calls, %v; want 2", n, err)
	}
	if _, err := countCalls("1 fsync(3) = 0\n"); err == nil {
		t.Error("a trace without marks is accepted")
	}
}

func TestParseStat(t *testing.T) {
	const line = "42 (a b) c) S 7 1 1 0 -1 4194560 1 0 0 0 10 20 3 4 20 0 1 0 5 6 7"
	pid, parent, ticks, ok := parseStat(line)
	if !ok || pid != 42 || parent != 7 || ticks != 37 {
		t.Errorf("%d, %d, %d, %v", pid, parent, ticks, ok)
	}
	if _, _, _, ok := parseStat("42 (short) S 7"); ok {
		t.Error("a short line is accepted")
	}
	if treeCPU() < 0 || !descends(map[int]int{3: 2, 2: 1}, 3, 2) || descends(map[int]int{3: 2}, 3, 9) {
		t.Error("the tree of processes is read wrongly")
	}
}

// TestOthers is the part of the processors that others used: of 3 s in a second, 1 s was own.
func TestOthers(t *testing.T) {
	all, err := parseUsed("cpu  100 20 30 4000 500 6 7 8 9 10")
	if want := 1710 * time.Millisecond; err != nil || all != want {
		t.Errorf("%v, %v; want %v", all, err, want)
	}
	if _, err := parseUsed("cpu0 1 2 3 4 5 6 7 8"); err == nil {
		t.Error("the line of one processor is accepted")
	}
	got := others(usage{all: time.Minute}, usage{all: time.Minute + 3*time.Second, own: time.Second}, time.Second)
	if want := min(1, 2/float64(cores())); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if _, err := used(); err != nil {
		t.Error(err)
	}
}

// TestCellOfNothing refuses a measurement of a system that does not exist.
func TestCellOfNothing(t *testing.T) {
	raw, err := json.Marshal(cell{System: "nothing", Dir: filepath.Join(t.TempDir(), "x")})
	if err != nil {
		t.Fatal(err)
	}
	if err := serveCell(t.Context(), string(raw), t.Output()); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("got %v", err)
	}
}
