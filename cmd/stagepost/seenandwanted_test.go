package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/cli"
)

// seenAndWanted are messages that misled people, each with the one that replaced it. An id in the output stands as ID,
// an ARK as ARK.
var seenAndWanted = []struct {
	name string
	args string
	code int
	seen string   // the output does not have it
	want []string // whole lines of the output
	bare bool     // on the server without compute
}{
	{
		name: "a directory is submitted", args: "submit maps", code: cli.ExitUsage, seen: "is the server running?",
		want: []string{"stagepost: maps is a directory: pack it (zip, tar) or write a manifest"},
	},
	{
		name: "a number that no job has", args: "why 3", code: cli.ExitNotFound, seen: "users' files", bare: true,
		want: []string{"stagepost: there is no job 3", "  hint: stagepost list shows what there is"},
	},
	{
		name: "a number that no job has, with compute", args: "why 99", code: cli.ExitNotFound, seen: "users' files",
		want: []string{"stagepost: there is no job 99", "  hint: stagepost list shows what there is"},
	},
	{
		name: "a hold", args: "why ingest.batch/3 -o table", seen: "release the hold on",
		want: []string{"  group=maps is on hold: flood [hold]", "    stagepost release --group maps"},
	},
	{
		name: "what to do with a failed job", args: "why ingest.job/2 -o table", seen: "see the moves",
		want: []string{"    stagepost retry ID"},
	},
	{
		name: "too little memory", args: "run --limit memory=256MiB hog.sh -- bash hog.sh", code: 137,
		seen: "stagepost retry",
		want: []string{"  hint: stagepost compute clone ID --limit memory=512MiB runs it again as a new job with a larger " +
			"limit"},
	},
	{
		name: "a retry of a completed script", args: "retry compute.job/1", code: cli.ExitRefused,
		want: []string{
			"stagepost: ID: it has completed: confirm that it is to run again",
			"  hint: if that is meant: stagepost retry ID --confirm --note WHY",
		},
	},
	{
		name: "the report of a wrong file", args: "ingest report ingest.batch/2", seen: "put the files right",
		want: []string{"\tCorrect the file at its address, then tell the archive; staff will retry it."},
	},
	{
		name: "an event that the state lacks", args: "event release ingest.job/1", code: cli.ExitRefused, seen: "arrow",
		want: []string{"stagepost: ID: a Completed job cannot be released"},
	},
	{
		name: "a confined command", args: "flow run confined.yaml", code: cli.ExitFailed,
		want: []string{"  outside failed: CommandFailed: the command exited with 1: mkdir: cannot create directory " +
			"'/usr/outside': Read-only file system; commands are confined; see flow.dirs"},
	},
	{
		name: "the end of a job without a callback", args: "why ingest.job/1 -o table", seen: "took the news",
		want: []string{"  stored as ARK, version 1; nothing to notify"},
	},
}

var (
	anyID  = regexp.MustCompile(`\b[a-z]{3}_[0-9A-Z]{26}\b`)
	anyARK = regexp.MustCompile(`ark:/\d+/\w+`)
)

// TestSeenAndWanted runs the command of each row: its exit code and whole lines are those that are wanted.
func TestSeenAndWanted(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if text := string(readme); strings.Contains(text, "--data /srv") || !strings.Contains(text, "data: ./data") {
		t.Error("README.md starts a server on a directory that only root can make")
	}
	t.Chdir(t.TempDir())
	misleading(t)
	for _, c := range seenAndWanted {
		t.Setenv("STAGEPOST_DATA", "data")
		if c.bare {
			t.Setenv("STAGEPOST_DATA", "bare")
		}
		var out, errs strings.Builder
		if code := newCall(strings.NewReader(""), &out, &errs).Run(split(c.args)); code != c.code {
			t.Errorf("%s: exit code %d, want %d", c.name, code, c.code)
		}
		text := anyARK.ReplaceAllString(anyID.ReplaceAllString(out.String()+errs.String(), "ID"), "ARK")
		if c.seen != "" && strings.Contains(text, c.seen) {
			t.Errorf("%s: %q is there again:\n%s", c.name, c.seen, text)
		}
		for _, line := range c.want {
			if !slices.Contains(strings.Split(text, "\n"), line) {
				t.Errorf("%s: no line is %q:\n%s", c.name, line, text)
			}
		}
	}
}

// misleading starts the servers of TestSeenAndWanted and makes their jobs: ingest.job/1 is stored, ingest.job/2 failed,
// ingest.batch/3 is held, compute.job/1 completed.
func misleading(t *testing.T) {
	t.Helper()
	web := httptest.NewServer(http.FileServer(http.Dir(".")))
	t.Cleanup(web.Close)
	for _, dir := range []string{"maps", "data/profiles"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"letter.txt":              "Dear Anna,\n",
		"data/profiles/post.yaml": "id: post\nallow_networks: [127.0.0.0/8]\n",
		"data/profiles/maps.yaml": "id: maps\n",
		"confined.yaml":           "flow: confined\nlinear:\n  - {task: outside, run: LC_ALL=C mkdir /usr/outside}\n",
		"hog.sh":                  "x=a\nfor i in $(seq 30); do x=$x$x; done\n",
		"wrong.checkm": "#%checkm_0.7\n#%profile | http://uc3.cdlib.org/registry/ingest/manifest/mrt-ingest-manifest\n" +
			web.URL + "/letter.txt | md5 | 00000000000000000000000000000000 | 11 | | letter.txt\n#%eof\n",
	} {
		write(t, filepath.FromSlash(name), text)
	}
	for _, args := range [][]string{
		{"--data=data", "--compute-local=1", "--compute-sandbox=auto", "--flow-commands", "--flow-sandbox=require"},
		{"--data=bare"},
	} {
		r, err := started(t, args...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Setenv("STAGEPOST_DATA", "data")
	for _, c := range []struct {
		args string
		code int
	}{
		{"submit letter.txt --wait", cli.ExitOK},
		{"submit wrong.checkm --profile post --wait", cli.ExitFailed},
		{"hold --group maps --note flood", cli.ExitOK},
		{"submit letter.txt --profile maps", cli.ExitOK},
		{"run letter.txt -- true", cli.ExitOK},
	} {
		var out, errs strings.Builder
		if code := newCall(strings.NewReader(""), &out, &errs).Run(split(c.args)); code != c.code {
			t.Fatalf("%s: exit code %d, want %d: %s%s", c.args, code, c.code, out.String(), errs.String())
		}
	}
}
