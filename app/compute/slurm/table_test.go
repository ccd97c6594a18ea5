package slurm

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/compute"
)

func TestStates(t *testing.T) {
	for _, test := range []struct {
		text     string
		standing compute.Standing
		cause    string
		says     string
	}{
		{"PENDING", compute.Waits, "", ""},
		{"RUNNING", compute.Works, "", ""},
		{" running ", compute.Works, "", ""},
		{"SUSPENDED", compute.Works, "", "suspended"},
		{"COMPLETED", compute.Ended, "", ""},
		{"COMPLETING", compute.Works, "", "ended"},
		{"COMPLETED+COMPLETING", compute.Works, "", "ended"},
		{"COMPLETING,FAILED", compute.Works, "", "ended"},
		{"RUNNING,STOPPED", compute.Works, "", "stopped"},
		{"FAILED", compute.Ended, compute.CauseExit, ""},
		{"CANCELLED by 0", compute.Ended, compute.CauseKilled, "by user 0"},
		{"CANCELLED+", compute.Ended, compute.CauseKilled, "cancelled"},
		{"CANCELLE+", compute.Ended, compute.CauseKilled, "cancelled"},
		{"OUT_OF_ME+", compute.Ended, compute.CauseMemory, "memory"},
		{"NODE_FAIL", compute.Ended, compute.CauseNode, "node"},
		{"PREEMPTED", compute.Ended, compute.CausePreempt, "favour"},
		{"BOOT_FAIL", compute.Ended, compute.CauseNode, "boot"},
		{"DEADLINE", compute.Ended, compute.CauseTimeout, "deadline"},
		{"TIMEOUT", compute.Ended, compute.CauseTimeout, "time limit"},
		{"REQUEUE_HOLD", compute.Waits, "", "holds"},
		{"SPECIAL_EXIT", compute.Waits, "", "special"},
		{"REVOKED", compute.Lost, "", "federation"},
		{"CONFIGURING", compute.Waits, "", "ready"},
		{"RE+", compute.Works, "", `"RE+"`}, // REVOKED, REQUEUED, RESIZING...
		{"BURNING", compute.Works, "", `"BURNING"`},
		{"", compute.Works, "", `""`},
		{"+++", compute.Works, "", `"+++"`},
		{"COMPLETED\x1b[2J", compute.Works, "", "not known"},
	} {
		m := meant(test.text)
		if m.standing != test.standing || m.cause != test.cause || !strings.Contains(m.sentence, test.says) ||
			strings.Contains(m.sentence, "\x1b") {
			t.Errorf("%q: got %+v", test.text, m)
		}
	}
	for name, m := range states {
		if got := meant(name); got != m {
			t.Errorf("%s: got %+v, want %+v", name, got, m)
		}
		if m.standing == compute.Ended && (m.cause == "") != (name == "COMPLETED") {
			t.Errorf("%s: an end has a cause exactly when it is not good", name)
		}
	}
}

func TestReasons(t *testing.T) {
	for reason, want := range map[string]string{
		"Resources":                           "the processors or the memory that it needs are in use (Slurm: Resources)",
		"(Priority)":                          "jobs of higher priority come first (Slurm: Priority)",
		"QOSMaxJobsPerUserLimit":              "its user runs as many jobs as the QOS allows (Slurm: QOSMaxJobsPerUserLimit)",
		"AssocGrpCpuLimit":                    "its account and those below it use as much as they may (Slurm: AssocGrpCpuLimit)",
		"PartitionDown":                       "its partition is down (Slurm: PartitionDown)",
		"ReqNodeNotAvail, UnavailableNodes:n": "nodes that it needs are down, drained or reserved (Slurm: ReqNodeNotAvail, UnavailableNodes:n)",
		"SomethingNew":                        "Slurm: SomethingNew",
		"a\x1b[1m\nb":                         "Slurm: a [1m b",
		"":                                    "Slurm gives no reason",
	} {
		if got := why(reason); got != want {
			t.Errorf("%q: got %q, want %q", reason, got, want)
		}
	}
}

func TestReadQueue(t *testing.T) {
	rows, odd := readQueue("12|RUNNING|1767225600|N/A|n1|stagepost-cmp_1-2|None\nCLUSTER: x\n13|PENDING|N/A|2026-01-01T00:00:00||stagepost-cmp_2-1|odd|one\n")
	want := map[string][]row{
		"stagepost-cmp_1-2": {{id: "12", state: "RUNNING", start: time.Unix(1767225600, 0).UTC(), node: "n1",
			name: "stagepost-cmp_1-2", reason: "None"}},
		"stagepost-cmp_2-1": {{id: "13", state: "PENDING", end: time.Unix(1767225600, 0).UTC(),
			name: "stagepost-cmp_2-1", reason: "odd|one"}},
	}
	if diff := cmp.Diff(want, rows, cmp.AllowUnexported(row{})); diff != "" || odd != "" {
		t.Errorf("odd line %q; (-want +got)\n%s", odd, diff)
	}
	for _, line := range []string{"x", "1|2|3", "1_2|RUNNING|||n|stagepost-a-1|x", "12|RUNNING|||n|other|x",
		"|||||stagepost-a-1|"} {
		if rows, odd := readQueue(line + "\n"); len(rows) != 0 || odd != line {
			t.Errorf("%q: %v, %q", line, rows, odd)
		}
	}
}

func TestPick(t *testing.T) {
	rows := []row{{id: "99", state: "FAILED"}, {id: "101", state: "PENDING"}, {id: "100", state: "RUNNING"},
		{id: "98", state: "COMPLETED"}}
	for claimed, want := range map[string]string{"": "100", "98": "98", "101": "101", "7": "100"} {
		if got, ok := pick(rows, claimed); !ok || got.id != want {
			t.Errorf("claimed by %q: got %q, want %q", claimed, got.id, want)
		}
	}
	if got, _ := pick([]row{rows[3], rows[0]}, ""); got.id != "99" {
		t.Errorf("of two that ended: %q", got.id)
	}
	if _, ok := pick(nil, "1"); ok {
		t.Error("of none")
	}
}

func TestReadBook(t *testing.T) {
	out := "12|CANCELLED by 0|0:15|1767225600|1767225660|n1|00:01.500|0|stagepost-a-1\n12.batch|CANCELLED|0:15|||n1|1-00:00:02|1.5M|batch\n12.extern|COMPLETED|0:0|||n1|9|9G|extern\n" +
		"13|COMPLETED|0:0|Unknown|Unknown|n1|||others|name\nrubbish\n.batch|||||||\n99.batch|COMPLETED|0:0|||n1|9|9G|batch\n"
	got := readBook(out)["stagepost-a-1"]
	want := []row{{
		id: "12", name: "stagepost-a-1", state: "CANCELLED by 0", node: "n1", start: time.Unix(1767225600, 0).UTC(),
		end:    time.Unix(1767225660, 0).UTC(),
		signal: 15, known: true, cpu: 24*time.Hour + 2*time.Second, memory: 3 << 19,
	}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(row{})); diff != "" || len(readBook(out)) != 1 {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestReadShow(t *testing.T) {
	r := row{id: "12", name: "stagepost-a-1"}
	if got := readShow("JobId=12 JobName=stagepost-a-1 ExitCode=0:9 Comment=x ExitCode=3:0\n", r); got.signal != 9 || got.exit != 0 || !got.known {
		t.Errorf("got %+v", got)
	}
	for _, out := range []string{"", "JobId=13 JobName=stagepost-a-1 ExitCode=0:9", "JobId=12 JobName=other ExitCode=0:9", "JobId=12 JobName=stagepost-a-1 ExitCode=many"} {
		if got := readShow(out, r); got != r {
			t.Errorf("%q: got %+v", out, got)
		}
	}
}

func TestReadRoom(t *testing.T) {
	out := "main*|up|2/6/0/8\nmain*|up|0/0/8/8\nother|down|0/1/1/2\n"
	got, err := readRoom(out, true)
	if want := (processors{"main", true, 2, 6, 8, 16}); err != nil || got != want {
		t.Errorf("the default: %+v, %v", got, err)
	}
	got, err = readRoom("other|down|0/1/1/2\n", false)
	if want := (processors{"other", false, 0, 1, 1, 2}); err != nil || got != want {
		t.Errorf("a named one: %+v, %v", got, err)
	}
	for _, out := range []string{"", "main", "main|up|1/2/3", "main|up|1/2/3/x", "main|up|1/2/3/-4"} {
		if got, err := readRoom(out, false); err == nil {
			t.Errorf("%q: %+v", out, got)
		}
	}
}

func TestEnding(t *testing.T) {
	wrote := func(exit, signal int, cause string, notified bool) *exited {
		return &exited{Exit: exit, Signal: signal, Cause: cause, Notified: notified, Started: 1, Finished: 2}
	}
	failed := func(exit, signal int) row { return row{id: "1", exit: exit, signal: signal, known: true} }
	for _, test := range []struct {
		name        string
		end         end
		exit        int
		signal, why string
	}{
		{"good", end{exit: wrote(0, 0, "", false), meaning: states["COMPLETED"]}, 0, "", ""},
		{"good, and Slurm has forgotten it", end{exit: wrote(0, 0, "", false)}, 0, "", ""},
		{"good, before its node failed", end{exit: wrote(0, 0, "", false), meaning: states["NODE_FAIL"]}, 0, "", ""},
		{"good, before the request to end it arrived", end{exit: wrote(0, 0, "", false), meaning: states["CANCELLED"], killed: true}, 0, "", ""},
		{"ended on request, well-behaved", end{exit: wrote(0, 0, "", true), meaning: states["CANCELLED"], killed: true},
			0, "", compute.CauseKilled},
		{"ended on request", end{exit: wrote(-1, 15, "", true), meaning: states["CANCELLED"], killed: true}, -1,
			"SIGTERM", compute.CauseKilled},
		{"cancelled by another", end{exit: wrote(-1, 15, "", true), meaning: states["CANCELLED"]}, -1, "SIGTERM",
			compute.CauseKilled},
		{"time limit of Slurm", end{exit: wrote(-1, 15, "", true), meaning: states["TIMEOUT"]}, -1, "SIGTERM",
			compute.CauseTimeout},
		{"time limit of Slurm, run.sh first", end{exit: wrote(-1, 15, "", false), meaning: states["TIMEOUT"]}, -1,
			"SIGTERM", compute.CauseTimeout},
		{"ended on request, run.sh first", end{exit: wrote(-1, 15, "", false), meaning: states["CANCELLED"],
			killed: true}, -1, "SIGTERM", compute.CauseKilled},
		{"preempted, a process of run.sh first", end{exit: wrote(143, 0, "", false), meaning: states["PREEMPTED"]}, 143,
			"", compute.CausePreempt},
		{"ended by SIGTERM, and Slurm has forgotten it", end{exit: wrote(-1, 15, "", true),
			meaning: meaning{standing: compute.Ended, cause: compute.CauseLost}}, -1, "SIGTERM", compute.CauseSignal},
		{"SIGTERM of its own", end{exit: wrote(-1, 15, "", false), meaning: states["FAILED"]}, -1, "SIGTERM",
			compute.CauseSignal},
		{"preempted", end{exit: wrote(143, 0, "", true), meaning: states["PREEMPTED"]}, 143, "", compute.CausePreempt},
		{"time limit of ours", end{exit: wrote(-1, 9, "wall", true), meaning: states["FAILED"]}, -1, "SIGKILL",
			compute.CauseTimeout},
		{"disk", end{exit: wrote(1, 0, "disk", true), meaning: states["FAILED"]}, 1, "", compute.CauseDisk},
		{"memory by cgroups", end{exit: wrote(137, 0, "", false), meaning: states["OUT_OF_MEMORY"]}, 137, "",
			compute.CauseMemory},
		{"memory by polling", end{row: failed(0, 9), meaning: states["FAILED"], log: "slurmstepd: error: Exceeded job memory limit\n", ran: true}, -1, "SIGKILL", compute.CauseMemory},
		{"exit code", end{exit: wrote(3, 0, "", false), meaning: states["FAILED"]}, 3, "", compute.CauseExit},
		{"signal", end{exit: wrote(-1, 11, "", false), meaning: states["FAILED"]}, -1, "SIGSEGV", compute.CauseSignal},
		{"processor time", end{exit: wrote(-1, 24, "", false), meaning: states["FAILED"],
			limits: compute.Limits{CPU: 1}}, -1, "SIGXCPU", compute.CauseCPU},
		{"SIGXCPU for fun", end{exit: wrote(-1, 24, "", false), meaning: states["FAILED"]}, -1, "SIGXCPU",
			compute.CauseSignal},
		{"beyond disk, and ended well", end{exit: &exited{Disk: 2, Started: 1, Finished: 2},
			meaning: states["COMPLETED"], limits: compute.Limits{Disk: 1 << 10}}, 0, "", compute.CauseDisk},
		{"beyond disk, and ended badly", end{exit: &exited{Exit: 1, Disk: 2, Started: 1, Finished: 2},
			meaning: states["FAILED"], limits: compute.Limits{Disk: 1 << 10}}, 1, "", compute.CauseDisk},
		{"below disk", end{exit: &exited{Disk: 1, Started: 1, Finished: 2}, meaning: states["COMPLETED"],
			limits: compute.Limits{Disk: 1 << 10}}, 0, "", ""},
		{"a child's file too large", end{exit: wrote(153, 0, "", false), meaning: states["FAILED"],
			limits: compute.Limits{Disk: 1}}, 153, "", compute.CauseDisk},
		{"a file too large", end{exit: wrote(-1, 25, "", false), meaning: states["FAILED"],
			limits: compute.Limits{Disk: 1}}, -1, "SIGXFSZ", compute.CauseDisk},

		{"nothing written, good", end{row: failed(0, 0), meaning: states["COMPLETED"], ran: true}, 0, "", ""},
		{"nothing written, exit code", end{row: failed(3, 0), meaning: states["FAILED"], ran: true}, 3, "",
			compute.CauseExit},
		{"nothing written, killed by KILL", end{row: failed(0, 9), meaning: states["CANCELLED"], ran: true,
			killed: true}, -1, "SIGKILL", compute.CauseKilled},
		{"nothing written, a signal", end{row: failed(0, 11), meaning: states["FAILED"], ran: true}, -1, "SIGSEGV",
			compute.CauseSignal},
		{"cancelled before it ran", end{row: failed(0, 0), meaning: states["CANCELLED"], killed: true}, -1, "",
			compute.CauseKilled},
		{"node failed", end{row: failed(0, 0), meaning: states["NODE_FAIL"], ran: true}, -1, "", compute.CauseNode},
		{"time limit, KILL", end{row: failed(0, 9), meaning: states["TIMEOUT"], ran: true}, -1, "SIGKILL",
			compute.CauseTimeout},
		{"begun twice", end{row: failed(codeTaken, 0), meaning: states["FAILED"], ran: true}, -1, "",
			compute.CauseNode},
		{"no shared directory", end{row: failed(0, codeFile), meaning: states["FAILED"]}, -1, "", compute.CauseNode},
		{"no directory", end{row: failed(codeNoDir, 0), meaning: states["FAILED"]}, -1, "", compute.CauseNode},
		{"Slurm reports nothing", end{meaning: meaning{standing: compute.Ended, cause: compute.CauseLost},
			killed: true},
			-1, "", compute.CauseKilled},
	} {
		got := test.end.ending()
		if got.Exit != test.exit || got.Signal != test.signal || got.Cause != test.why ||
			(got.Cause != "") && got.Sentence == "" {
			t.Errorf("%s: got %+v", test.name, got)
		}
	}
}

func TestValidate(t *testing.T) {
	good := Options{Dir: "/shared", Partition: "a,b", Account: "x", Extra: []string{"--gres=gpu:1", "--exclusive"},
		Slots: -1, Env: map[string]string{"A": "b\nc"}, Binds: []string{"/opt"}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, o := range map[string]Options{
		"no directory": {}, "relative": {Dir: "shared"}, "a pattern": {Dir: "/shared/%j"},
		"an option": {Dir: "/s", Partition: "x --wrap"}, "not allowed": {Dir: "/s", Extra: []string{"--wrap=id"}},
		"requeue": {Dir: "/s", Extra: []string{"--requeue"}}, "two words": {Dir: "/s", Extra: []string{"--nice 5"}},
		"variable": {Dir: "/s", Env: map[string]string{"A B": ""}},
		"bind":     {Dir: "/s", Binds: []string{"opt"}}, "negative": {Dir: "/s", Poll: -1},
		"a line": {Dir: "/s", Extra: []string{"--gres=a\n#SBATCH"}},
	} {
		if err := o.Validate(); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func FuzzParsers(f *testing.F) {
	for _, seed := range []string{
		"12|RUNNING|1767225600|N/A|n1|stagepost-cmp_1-2|None\n", "12|CANCELLED by 0|0:15|0|0|n1|1-00:01.5|1.5M|stagepost-a-1\n12.batch|X|0:0|||n|9|9P|batch\n", "JobId=1 JobName= ExitCode=9:9",
		"main*|up|2/6/0/8\n", `{"exit":-1,"signal":9,"started":1,"cause":"wall"}`, "OUT_OF_ME+", "QOSMax\xff,", "COMPLETED+COMPLETING,X by",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rows, _ := readQueue(text)
		for name, of := range rows {
			for _, r := range of {
				if r.name != name || !number.MatchString(r.id) || !jobName.MatchString(name) {
					t.Errorf("row %+v", r)
				}
			}
		}
		for _, of := range readBook(text) {
			for _, r := range of {
				if r.cpu < 0 || r.memory < 0 || r.exit < 0 || r.signal < 0 {
					t.Errorf("row %+v", r)
				}
			}
		}
		readShow(text, row{id: "1"})
		if c, err := readRoom(text, true); err == nil && c.total < 0 {
			t.Errorf("%+v", c)
		}
		if e := readExit([]byte(text)); e != nil && (e.Exit > 255 || e.Signal > 64 || e.Started <= 0) {
			t.Errorf("%+v", e)
		}
		if m := meant(text); m.standing == "" || m.standing == compute.Ended && m.cause != "" && m.sentence == "" {
			t.Errorf("%q: %+v", text, m)
		}
		for _, said := range []string{why(text), meant(text).sentence} {
			if strings.ContainsAny(said, "\x00\n\x1b\x7f") || len(said) > 600 {
				t.Errorf("%q: %q", text, said)
			}
		}
	})
}
