package custom

import (
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/lifecycle"
)

const scan = `name: lab.scan
prefix: scan
slots: 2
limits:
  - {name: scanners, states: [Scanning], max: 2, per: owner}
states:
  - state: Waiting
    kind: queue
    doc: An order brings it here, the server takes it.
    bounded: it passes at once
    arrows:
      - {event: begin, to: Scanning, by: worker, class: pass, doc: It may begin.}
  - state: Scanning
    kind: work
    doc: A remote worker scans.
    arrows:
      - {event: scanned, to: Checking, by: worker, class: pass, doc: All pages are there.}
      - {event: fail, to: Failed, by: [worker, timer], class: fail, doc: It cannot be scanned.}
  - state: Checking
    kind: work
    doc: A command checks.
    arrows:
      - {event: accept, to: Done, by: worker, class: pass, doc: The pages are good.}
      - {event: reject, to: Failed, by: worker, class: fail, doc: A page is unreadable.}
      - {event: fail, to: Failed, by: timer, class: fail, doc: It took too long.}
  - state: Done
    kind: end
    outcome: ok
    doc: Scanned and checked.
  - state: Failed
    kind: end
    outcome: failed
    restartable: true
    doc: A person decides.
    arrows:
      - {event: retry, reenter: [Scanning, Checking], by: [operator, owner], doc: Tried again.}
work:
  Waiting: {pass: true}
  Scanning: {worker: true, attempts: 3, backoff: {first: 10ms, max: 1s}, deadline: 2h}
  Checking:
    command: [sh, -c, ./check]
    env: {LANG: C.UTF-8}
    timeout: 10m
    exits: {3: reject, 4: retry}
    limits: {memory: 512MiB, cpu: 5m, processes: 64}
`

func TestParse(t *testing.T) {
	f, err := Parse("scan.yaml", []byte(scan))
	if err != nil {
		t.Fatal(err)
	}
	w := (&Options{Sandbox: new(sandbox.Sandbox)}).work(f)
	if w.Prefix != "scan" || w.Slots != 2 || len(w.Limits) != 1 || !w.Limits[0].PerOwner ||
		w.Policies["Scanning"].MaxAttempts != 3 ||
		w.Policies["Scanning"].Timeout.Hours() != 2 || w.Steps["Waiting"] == nil || w.Steps["Checking"] == nil ||
		w.Steps["Scanning"] != nil ||
		f.spec.Work["Checking"].Limits.Memory != 512<<20 || f.spec.Work["Checking"].Exits[3] != "reject" {
		t.Errorf("got %+v", w)
	}
}

// TestWhoRunsCommands: commands have steps where there is a sandbox, and the server shares them with remote workers
// only if it is set so.
func TestWhoRunsCommands(t *testing.T) {
	text := strings.Replace(scan, "timeout: 10m", "timeout: 10m\n    requires: [gpu, zone=b]", 1)
	f, err := Parse("scan.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	box := new(sandbox.Sandbox)
	for _, c := range []struct {
		name         string
		options      Options
		remote       bool
		step, shared bool
	}{
		{"server", Options{Sandbox: box}, false, true, false},
		{"server and workers", Options{Sandbox: box, Remote: true}, false, true, true},
		{"workers alone", Options{Remote: true}, false, false, false},
		{"a worker", Options{Sandbox: box}, true, true, false},
	} {
		w := c.options.work(f)
		if c.remote {
			w = RemoteWork(f, c.options)
		}
		shared := slices.Contains(w.Shared, lifecycle.State("Checking"))
		if step := w.Steps["Checking"] != nil; step != c.step || shared != c.shared {
			t.Errorf("%s: step %v, shared %v", c.name, step, shared)
		}
		if (w.Steps["Waiting"] != nil) == c.remote || len(w.Requires["Checking"]) != 2 {
			t.Errorf("%s: %v, requires %v", c.name, w.Steps, w.Requires)
		}
	}
}

// TestBadFiles names the line of each mistake. The control is TestParse: the file without it.
func TestBadFiles(t *testing.T) {
	line := func(text string) int { return 1 + strings.Count(scan[:strings.Index(scan, text)], "\n") }
	for _, c := range []struct {
		from, to, message string
		line              int
	}{
		{"slots: 2", "slots: 0x", "int", line("slots: 2")},
		{"slots: 2", "slots: 5000", "1 to 1000", line("slots: 2")},
		{"slots: 2", "colour: 2", "colour", line("slots: 2")},
		{"slots: 2", "webhooks: {a: \"ftp://x\"}", "not a URL", line("slots: 2")},
		{"prefix: scan", "prefix: S", "prefix", line("prefix: scan")},
		{"name: lab.scan", "name: Lab", "small letters", 1},
		{"max: 2", "max: 0", "max of at least 1", line("limits:")},
		{"states: [Scanning]", "states: [Nowhere]", "no state Nowhere", line("limits:")},
		{"  Waiting: {pass: true}\n", "", "Waiting is not in work", line("work:")},
		{"  Waiting: {pass: true}", "  Waiting: {pass: true, worker: true}", "one of", line("  Waiting: {pass")},
		{"  Waiting: {pass: true}", "  Done: {pass: true}", "not a queue or work state", line("  Waiting: {pass")},
		{"  Waiting: {pass: true}", "  Waiting: {pass: true, timeout: 1m}", "for a command", line("  Waiting: {pass")},
		{"{3: reject, 4: retry}", "{3: accept, 999: retry}", "not an exit code", line("exits:")},
		{"{3: reject, 4: retry}", "{3: explode}", "no event explode", line("exits:")},
		{"timeout: 10m", "requires: [\"a b\"]", "the label", line("timeout: 10m")},
		{"{pass: true}", "{pass: true, requires: [gpu]}", "for a command or worker", line("  Waiting: {pass")},
		{"timeout: 10m", "timeout: soon", "soon", line("timeout: 10m")},
		{"memory: 512MiB", "memory: much", "much", line("    limits: {memory")},
		{"env: {LANG: C.UTF-8}", "env: &a {LANG: C.UTF-8}", "anchors", line("    env:")},
		{"to: Done, by: worker", "to: Dome, by: worker", "Dome", line("event: accept")},
		{"kind: queue", "kind: queues", "queues", line("kind: queue")},
	} {
		_, err := Parse("scan.yaml", []byte(strings.Replace(scan, c.from, c.to, 1)))
		if err == nil || !strings.Contains(err.Error(), c.message) || !strings.Contains("\n"+err.Error(),
			"\n"+itoa(c.line)+":") {
			t.Errorf("%s: got %v, want %q in line %d", c.to, err, c.message, c.line)
		}
	}
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}
