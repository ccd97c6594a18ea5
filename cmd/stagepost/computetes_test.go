package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute/tes"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/host"
	"github.com/stagepost/stagepost/job"
)

// exchange does a request and reads the JSON of its answer.
func exchange[T any](t *testing.T, method, url, body string) (v T) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s: %s (%v)", method, url, answer.Status, text, err)
	}
	return v
}

// TestTESTask runs a task with absolute paths in the best sandbox that works here, and in none: commands, a shell's
// text, workdir, env, streams, inputs, outputs, volumes.
func TestTESTask(t *testing.T) {
	for _, tier := range []string{sandbox.Auto, sandbox.None} {
		t.Run(tier, func(t *testing.T) {
			dir, root, shelf := t.TempDir(), t.TempDir(), t.TempDir()
			if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil { // jobs of root have a user of their own
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, "numbers"), []byte("3\n1\n2\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			s := newSettings()
			s.Data, s.Listen, s.Store, computeOf(s).Local, computeOf(s).Sandbox = dir, "127.0.0.1:0", "mem", 2, tier
			computeOf(s).TESImages, computeOf(s).TESRoots, computeOf(s).TESOutput = "ubuntu=default", root, shelf
			r, err := host.Start(t.Context(), s, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := r.Stop(); err != nil {
					t.Error(err)
				}
			}()
			at := r.URL + "/ga4gh/tes/v1/tasks"
			made := exchange[tes.Created](t, http.MethodPost, at,
				`{"name":"real","inputs":[{"path":"/data/numbers.txt","url":"file://`+root+
					`/numbers"},{"path":"/data/word","content":"it's \"given\"\n"}],
				"outputs":[{"path":"/out/all","url":""},{"path":"/vol","type":"DIRECTORY","url":"file://`+shelf+
					`/deep/er"}],"volumes":["/vol"],
				"executors":[{"image":"ubuntu","command":["sort","/data/numbers.txt"],"stdout":"/vol/sorted"},
					{"image":"ubuntu","command":["sh","-c","cat /vol/sorted \"$WORD\" - >/out/all; pwd; echo aside >&2"],"stdin":"/data/word","workdir":"/work","env":{"WORD":"/data/word"}}]}`)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			if j, err := r.Engine.Await(ctx, job.ID(made.ID), func(j *job.Job) bool { return j.Ended }); err != nil {
				t.Fatalf("it stays in %s: %v", j.State, err)
			}
			got := exchange[tes.Task](t, http.MethodGet, at+"/"+made.ID+"?view=FULL", "")
			// its outputs are being copied; clients can only ask again
			for got.State == tes.Running && ctx.Err() == nil {
				got = exchange[tes.Task](t, http.MethodGet, at+"/"+made.ID+"?view=FULL", "")
			}
			if got.State != tes.Complete || len(got.Logs) != 1 || len(got.Logs[0].Logs) != 2 ||
				len(got.Logs[0].Outputs) != 2 {
				t.Fatalf("got %+v", got)
			}
			if text, err := os.ReadFile(filepath.Join(shelf, "deep/er/sorted")); err != nil ||
				string(text) != "1\n2\n3\n" || got.Logs[0].Outputs[1].URL != "file://"+shelf+"/deep/er/sorted" {
				t.Errorf("the copy is %q, %v, %+v", text, err, got.Logs[0].Outputs)
			}
			if last := got.Logs[0].Logs[1]; !strings.HasSuffix(last.Stdout, "/tes/work\n") ||
				last.Stderr != "aside\n" || last.Exit != 0 {
				t.Errorf("the executor is %+v", last)
			}
			answer, err := http.Get(got.Logs[0].Outputs[0].URL)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if text, err := io.ReadAll(answer.Body); err != nil ||
				string(text) != "1\n2\n3\nit's \"given\"\nit's \"given\"\n" {
				t.Errorf("the output is %q, %v", text, err)
			}
		})
	}
}

// TestTESSettings refuses images without a service, services that are not there, and roots that are none. The control
// is the task above.
func TestTESSettings(t *testing.T) {
	for images, root := range map[string]string{"ubuntu": "", "ubuntu=none": "", "a=default,a=default": "",
		"*=default": "relative", "b=default": "/"} {
		s := newSettings()
		s.Data, s.Listen, s.Store, computeOf(s).Local, computeOf(s).Sandbox, computeOf(s).TESImages,
			computeOf(s).TESRoots = t.TempDir(), "127.0.0.1:0", "mem", 1, sandbox.None, images, root
		if r, err := host.Start(t.Context(), s, slog.New(slog.DiscardHandler)); err == nil ||
			!strings.Contains(err.Error(), "tes") {
			t.Errorf("%s, %s: got %v", images, root, err)
			if r != nil {
				_ = r.Stop() // it should not have started
			}
		}
	}
}
