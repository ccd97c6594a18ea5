package main

import (
	"crypto/tls"
	"errors"
	"flag"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	orchestratorcli "github.com/stagepost/stagepost/app/compute/orchestrator/cli"
	"github.com/stagepost/stagepost/edge/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Init()
	// Most of these tests wait for processes that they start: four run at a time unless -parallel gives another number.
	if err := flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	if os.Args[0] == observedName {
		observed()
	}
	testscript.Main(tests{m}, map[string]func(){"stagepost": main, orchestratorcli.Name: main})
}

// TestScript runs the files in testdata/script. They are documentation as well: what a user types, and what comes back.
//
// Beside the commands of testscript there are `exits N command...`, which requires that exit code; `ready`, which waits
// until the server on the data directory answers; and `let NAME`, which keeps the last output, without the line break,
// as $NAME.
func TestScript(t *testing.T) {
	examples, err := filepath.Abs("../../examples/compute")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("STAGEPOST_DATA", filepath.Join(e.WorkDir, "data"))
			e.Setenv("STAGEPOST_LISTEN", "127.0.0.1:0")
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("USER", "ann")
			e.Setenv("EXAMPLES", examples)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "ready": ready,
			"answers": answers, "let": let, "refused": refused},
	})
}

// exits runs a command that must end with a code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// anyCertificate is for requests that only wait for a server; it may have a private authority.
var anyCertificate = &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
	TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

// ready waits until the server in the background answers.
func ready(ts *testscript.TestScript, _ bool, _ []string) {
	untilAnswer(ts, "/healthz", "the server did not get ready")
}

// answers waits until whatever is in the background has left its address in the data directory and takes connections
// there, with or without a token.
func answers(ts *testscript.TestScript, _ bool, _ []string) {
	untilAnswer(ts, "/health", "it does not answer")
}

// untilAnswer waits for an answer of another process, whose address is in the address file.
func untilAnswer(ts *testscript.TestScript, path, fault string) {
	file := filepath.Join(ts.Getenv("STAGEPOST_DATA"), "address")
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); <-tick.C {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		url := strings.TrimSpace(string(text))
		if answer, err := anyCertificate.Get(url + path); err == nil {
			_ = answer.Body.Close()
			ts.Setenv("URL", url)
			return
		}
	}
	ts.Fatalf("%s", fault)
}

// refused waits until a package token is unknown: a server reads its tokens again after a second.
func refused(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: refused PACKAGETOKEN")
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); <-tick.C {
		answer, err := http.Get(ts.Getenv("URL") + "/api/v1/access/" + args[0])
		ts.Check(err)
		_ = answer.Body.Close()
		if answer.StatusCode == http.StatusNotFound {
			return
		}
	}
	ts.Fatalf("the package token is still valid")
}

// let keeps the last output in a variable.
func let(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: let NAME")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}
