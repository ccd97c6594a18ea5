package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/config"
	"github.com/stagepost/stagepost/host"
)

// trial are the commands of TestTerminalOf80Columns in the order of a session. NAME of a file is in the directory of
// the test; DIR is the data directory.
const trial = `
submit letter.txt --title "A letter with a title that is far too long for a list of eighty columns" --wait
submit letter.txt --local-id letter-17 --wait
ingest submit letter.txt --key second --wait
ingest.job/1: show why history logs watch retry stop delete cancel priority_5 event_requeue
ingest.batch/1: show why history watch
ingest list
ingest list --open
ingest objects
ingest report ingest.batch/1
ingest update ingest.batch/1
ingest files ingest.job/1
ingest manifest check letter.txt
ingest manifest check wrong.checkm
ingest access --local-id letter-17 --format bag-zip --out object.zip --check
ingest access ark:/99999/nothing
ingest fetch pkg_nothing --out object2.zip
ingest bag letter.txt
ingest profile list
ingest profile show default
ingest profile check
ingest profile check wrong.yaml
ingest profile reload
ingest hooks
ingest hooks show nothing
ingest hooks ping default
ingest hooks replay nothing --note x
ingest hooks replay --failed --note x
ingest queue
ingest queue --holds
ingest locks
ingest locks break object nothing --note x
ingest orphans
ingest storage
ingest storage adopt /nowhere --note x
fixity status
fixity run
fixity report
ingest inventory rebuild
run letter.txt -- sh -c "echo out; exit 7"
run letter.txt --detach -- true
compute run letter.txt -- true
compute.job/1: show why history logs logs_--events cancel priority_5 retry delete
compute results compute.job/1 --list
compute clone compute.job/1 --limit memory=64MiB
compute clean compute.job/1
compute jobs
compute services
compute agents
compute agent drain local --note x
compute agent resume local
compute agent doctor
compute import --database letter.txt
flow lint approve.yaml
flow lint wrong.yaml
flow draw vm.yaml --format text
flow run vm.yaml --input dir=vm
flow run vm.yaml --input dir=vm2 --input fail=boot
flow run approve.yaml --input page=letter.txt --input site=site --detach
flow run approve.yaml --input page=letter.txt --input site=site --detach --due 1h
flow list
flow/1: show why history logs watch retry delete
flow show flow/1
flow show flow/2
flow draw flow/2 --format text
flow suspend flow/3 --note x
flow resume flow/3
flow signal flow/3 approved
flow mark-reverted flow/2 boot --note x
flow reset flow/2 --confirm --note x
flow cancel flow/4 --note x
flow delete flow/4 --note x
archive plan exams maps --keep 10y
archive run exams maps --keep 10y --note "the term is over" --wait
archive.job/1: show why history
archive overview exams maps
archive overview nowhere maps
archive list
archive show archive.job/1
archive show archive.job/1 --files
archive status archive.job/1
archive retrieve archive.job/1 --out exam
archive verify exam
archive hold archive.job/1 case-7 --note "the legal department asks for it until the appeal of the student is decided"
archive delete archive.job/1 --note x
archive release archive.job/1 case-7 --note x
archive delete archive.job/1 --note x
archive deletions
archive approve nothing --note x
archive show archive.job/1
archive schedules
archive schedules run weekly-of-the-faculty --dry-run --note "before the first one" --wait
archive schedules
archive schedules show weekly-of-the-faculty
archive schedules run nothing
archive people find example
archive people show exams 19
archive people export exams 19 ann --note x
archive people erase exams 19 --expect 1 --note x
archive hooks
archive hooks show nothing
archive hooks ping
archive hooks replay nothing --note x
timestamp verify letter.txt --ca letter.txt
list
list --open
list --kind ingest.job
stuck
bulk retry --state Failed --dry-run
bulk delete --kind ingest.job --state Completed --expect 2 --note x
submit letter.txt --title Again --wait
submit wrong.checkm --wait
run letter.txt -- false
run letter.txt --limit wall=1s -- sleep 100
run letter.txt --detach -- true
flow run vm.yaml --input dir=vm3
create ingest.job
hold
hold --group maps --note "a reason that is long enough to need a second line on a terminal of eighty columns"
hold
release --group maps
admin drain --no-wait --note disks
admin resume
admin audit
admin outbox
admin outbox replay nothing --note x
admin export histories.zip
verify histories.zip
workers
workers drain lab-1 --note x
workers resume lab-1
admin health
admin clock
admin config
admin config --origin
admin config check wrong.yaml
admin config check good.yaml
admin backup
admin fsck
admin verify
admin verify compute.job/2
admin checkpoint show
admin accept
admin accept --note x
admin token list missing
admin token new --owner ann --role operator tokens
admin token list tokens
admin token revoke tokens 0000
admin restore missing --check
lifecycle list
lifecycle show ingest.job
lifecycle draw ingest.batch -o mermaid
lifecycle lint letter.txt
lifecycle add letter.txt
lifecycle remove nothing
version
completion
demo site nowhere
nosuch
why 99
list --data /nowhere/at/all/that/is/a/directory/with/a/long/name
`

// untried are the commands that TestTerminalOf80Columns does not run, each with the reason.
var untried = map[string]string{
	"completion bash": scriptOfAShell, "completion fish": scriptOfAShell, "completion powershell": scriptOfAShell,
	"completion zsh":            scriptOfAShell,
	"admin audit export":        "it prints JSON lines",
	"admin ca enrol":            ofAuthorities,
	"admin ca init":             ofAuthorities,
	"admin ca list":             ofAuthorities,
	"admin ca revoke":           ofAuthorities,
	"admin checkpoint restored": withoutServer,
	"admin checkpoint rotate":   withoutServer,
	"work enrol":                ofAuthorities,
	"migrate":                   "it needs a database server; TestMigrateThereAndBack of package host reads what it prints",
	"admin user disable":        ofUsers,
	"admin user list":           ofUsers,
	"admin user new":            ofUsers,
	"admin user password":       ofUsers,
	"admin user role":           ofUsers,
	"archive pdf-worker":        "it runs until it is stopped",
	"archive premis":            "it prints a document in XML",
	"compute agent":             "it runs until it is stopped; TestScript/agent reads what it prints",
	"demo":                      "TestDemo has its own check of 80 columns",
	"demo campus":               "it runs until it is stopped; TestQuickStarts reads what it prints",
	"docs":                      "it writes files",
	"ingest manifest":           "it prints a file of the archive as it is",
	"ingest metadata":           "it prints files of the archive as they are",
	"ingest profile schema":     "it prints a JSON schema for editors",
	"work":                      "it runs until it is stopped; TestScript/work reads what it prints",
	"serve":                     "it runs until it is stopped; TestQuickStarts reads what it prints",
	"zk check":                  readsNodes,
	"zk dump":                   readsNodes,
	"zk import":                 readsNodes,
	"zk orphans":                readsNodes,
}

const readsNodes = "it reads ZooKeeper; TestBesideMerritt reads what it prints"

const (
	scriptOfAShell = "it prints a program for a shell"
	withoutServer  = "no server may run meanwhile; TestScript/checkpoint reads what it prints"
	ofAuthorities  = "the server of the trial has no authority; TestScript/certificates reads what it prints"
	ofUsers        = "the server of the trial has no users; TestScript/signin reads what it prints"
)

// raw are the notations of programs: durations of Go, times of RFC 3339, JSON.
var raw = regexp.MustCompile(`\b\d+h\d+m\d|\b\d+m\d+(\.\d+)?s\b|\d{4}-\d\d-\d\dT\d\d:\d\d|\{"|^[{}\]]`)

// unfit returns what is wrong with the output of a command on a terminal of 80 columns. A line that is one word, such
// as an address, can be longer.
func unfit(text string) (faults []string) {
	for line := range strings.Lines(sequences.ReplaceAllString(text, "")) {
		line = strings.TrimRight(line, "\n")
		if i := strings.LastIndex(line, "\r"); i >= 0 {
			line = line[i+1:] // what was above it on the terminal is overwritten
		}
		if utf8.RuneCountInString(line) > 80 && strings.Contains(strings.TrimSpace(line), " ") {
			faults = append(faults, "longer than 80 columns: "+line)
		}
		if raw.MatchString(line) {
			faults = append(faults, "not for people: "+line)
		}
	}
	return faults
}

var sequences = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)

// TestTerminalOf80Columns runs commands on a terminal: no line is too long, and none has the notations of programs.
func TestTerminalOf80Columns(t *testing.T) {
	for _, planted := range []string{
		"a word " + strings.Repeat("x", 80), "it took 1h0m0s", "in 2m3.5s", "at 2026-01-02T15:04:05Z", `{"a":1}`, "{",
		"  {\n}",
	} {
		if len(unfit(planted+"\n")) != 1 {
			t.Errorf("control: %q has %q", planted, unfit(planted))
		}
	}
	defer startTrial(t).Stop()
	tried := map[string]bool{}
	for line := range strings.Lines(trial) {
		for _, args := range trialCalls(strings.TrimSpace(line)) {
			out, errs := onTerminal(args)
			for _, name := range namesOf(args) {
				tried[name] = true
			}
			for _, fault := range unfit(out + errs) {
				t.Errorf("%s: %s", strings.Join(args, " "), fault)
			}
			if out+errs == "" && args[0] != "watch" && args[0] != "logs" && args[0] != "run" {
				t.Errorf("%s prints nothing", strings.Join(args, " "))
			}
		}
	}
	for _, cmd := range allCommands(newCall(nil, &bytes.Buffer{}, &bytes.Buffer{}).Root()) {
		name := strings.TrimPrefix(cmd.CommandPath(), "stagepost ")
		if !cmd.HasParent() || cmd.Annotations["group"] != "" {
			continue
		}
		if _, excused := untried[name]; tried[name] == excused {
			t.Errorf("%s: tried %t, with a reason why not %t", name, tried[name], excused)
		}
	}
	endsInWords(t)
}

// startTrial starts the server of the trial, in a directory with its files.
func startTrial(t *testing.T) *host.Server {
	t.Helper()
	t.Setenv("STAGEPOST_DATA", "data")
	flows, err := filepath.Abs("../../examples/flow")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, dir := range []string{"near", "far", "exams/maps"} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range trialFiles(t, flows) {
		write(t, name, text)
	}
	r, err := started(t, "--data=data", "--archive-config=archive.yaml", "--compute-local=2", "--compute-sandbox=auto",
		"--flow-commands")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// trialFiles are the files of the trial.
func trialFiles(t *testing.T, flows string) map[string]string {
	t.Helper()
	files := map[string]string{
		"archive.yaml": "sources:\n  exams: {directory: {path: exams}}\nlocations:\n" +
			"  near: {directory: {path: near}}\n  far: {directory: {path: far}}\n" +
			"presets:\n  default: {settings: {sign: false}}\n" +
			"schedules:\n  weekly-of-the-faculty: {source: exams, cron: 30 2 * * 1, time_zone: UTC}\n",
		"exams/maps/a.txt": "A\n",
		"letter.txt":       "Dear Anna,\n", "good.yaml": "slots: 3\n", "wrong.yaml": "slotz: 3\nslots: [\n",
		"wrong.checkm": "#%checkm_0.7\n#%profile | " +
			"http://uc3.cdlib.org/registry/ingest/manifest/mrt-ingest-manifest\n" +
			"nowhere | md5 | 12 | many\n",
	}
	for _, name := range []string{"vm.yaml", "approve.yaml"} {
		text, err := os.ReadFile(filepath.Join(flows, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	return files
}

// namesOf gives the names of the command that arguments call: the one that is called, and its long form.
func namesOf(args []string) []string {
	cmd, _, err := searchedTree().Find(args)
	if err != nil || !cmd.HasParent() {
		return nil
	}
	names := []string{strings.TrimPrefix(cmd.CommandPath(), "stagepost ")}
	if long := cli.LongForm(cmd); long != "" {
		names = append(names, strings.TrimPrefix(long, "stagepost "))
	}
	return names
}

// unworded matches an explanation that begins with an event and its cause, not with what happened.
var unworded = regexp.MustCompile(`^([a-z-]+ by |it ended as )`)

// endsInWords checks that why begins with what happened for every job that has ended.
func endsInWords(t *testing.T) {
	t.Helper()
	out, errs := called(t, false, "list", "--ended", "--all", "-o", "json")
	var jobs []struct{ ID, Kind, State string }
	if err := json.Unmarshal([]byte(out), &jobs); err != nil {
		t.Fatalf("%v: %s%s", err, out, errs)
	}
	ends := map[string]bool{}
	for _, j := range jobs {
		ends[j.Kind+" "+j.State] = true
		out, _ := called(t, false, "why", j.ID, "-o", "plain")
		for line := range strings.Lines(out) {
			if f := strings.Split(line, "\t"); f[0] == "reason" && (unworded.MatchString(f[2]) || f[2] == "") {
				t.Errorf("%s is %s: %q", j.ID, j.State, f[2])
			}
		}
	}
	for _, end := range []string{"ingest.batch Completed", "ingest.batch Failed", "ingest.job Completed",
		"ingest.job Deleted", "compute.job Failed", "compute.job Completed",
		"flow SUCCESS", "flow REVERTED", "bulk Completed"} {
		if !ends[end] {
			t.Errorf("no job is %s: %v", end, ends)
		}
	}
}

// started starts a server in this process as serve does with flags, on a free port unless they name one.
func started(t *testing.T, args ...string) (*host.Server, error) {
	t.Helper()
	s := newSettings()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	s.Bind(flags, config.Shared)
	s.Bind(flags, "serve")
	flags.StringVar(&s.Named, "config", "", "")
	if err := flags.Parse(append([]string{"--listen=127.0.0.1:0"}, args...)); err != nil {
		t.Fatal(err)
	}
	if err := s.Load(flags, func(string) (string, bool) { return "", false }); err != nil {
		return nil, cli.Usage(err)
	}
	return host.Start(t.Context(), s, slog.New(slog.DiscardHandler))
}

// trialCalls returns the calls of a line: one, or one for each command about a job.
func trialCalls(line string) (all [][]string) {
	id, commands, many := strings.Cut(line, ": ")
	switch {
	case line == "":
		return nil
	case !many || strings.Contains(id, " "):
		return [][]string{split(strings.ReplaceAll(line, `"`, "'"))}
	}
	for command := range strings.FieldsSeq(commands) {
		words := strings.Split(command, "_")
		if words[0] == "logs" {
			all = append(all, append([]string{"logs", id}, words[1:]...))
		} else {
			all = append(all, append(words, id))
		}
	}
	return all
}

// onTerminal runs a command on a terminal of 80 columns.
func onTerminal(args []string) (out, errs string) {
	var o, e bytes.Buffer
	c := newCall(strings.NewReader(""), &o, &e)
	for _, p := range []*cli.Printer{c.Out, c.Err} {
		p.Terminal, p.Mode, p.Width = true, cli.ModeTable, 80
	}
	c.Run(args)
	return o.String(), e.String()
}
