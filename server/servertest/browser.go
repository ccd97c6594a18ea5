package servertest

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

var (
	inBrowser = flag.Bool("browser", false, "run the tests in a browser (make browser)")
	shots     = flag.String("shots", "", "take screenshots into this folder of the root instead (make screenshots)")
)

// browserTime bounds one run of the browser.
const browserTime = 5 * time.Minute

// Browser runs a script of scripts/browser against the server, if the tests run in a browser; else it skips the test.
// set is the standard input of the script, as JSON.
func (w *Harness) Browser(t *testing.T, script string, set map[string]any) {
	t.Helper()
	if !*inBrowser {
		t.Skip("make browser runs it")
	}
	text, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	w.node(t, text, script)
}

// Shots takes the screenshots of pages, each NAME=PATH, if that is asked for; else it skips the test.
func (w *Harness) Shots(t *testing.T, pages ...string) {
	t.Helper()
	if *shots == "" {
		t.Skip("make screenshots runs it")
	}
	w.node(t, nil, "shots.mjs", append([]string{filepath.Join(root(t), *shots), "light,dark", "1280"}, pages...)...)
}

// node runs a script of scripts/browser with the address of the server.
func (w *Harness) node(t *testing.T, in []byte, script string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), browserTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", append([]string{script}, args...)...)
	cmd.Dir = filepath.Join(root(t), "scripts", "browser")
	cmd.Env = append(os.Environ(), "STAGEPOST_URL="+w.Web.URL)
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// root returns the folder of the module, above that of the test.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	t.Fatalf("the folder of the module is not found: %v", err)
	return ""
}
