package demo

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
)

// TestColors: commands are bold on a terminal, and plain in a pipe and with NO_COLOR.
func TestColors(t *testing.T) {
	for _, test := range []struct {
		terminal bool
		noColor  string
		want     string
	}{
		{true, "", "\x1b[1m$ stagepost list\x1b[0m\n"},
		{true, "1", "$ stagepost list\n"},
		{false, "", "$ stagepost list\n"},
	} {
		t.Setenv("NO_COLOR", test.noColor)
		var out bytes.Buffer
		printer := &cli.Printer{Writer: &out, Mode: cli.ModeTable, Terminal: test.terminal, Width: columns}
		d := &demo{commands: &commands{jobs.Commands{Call: &cli.Call{Out: printer}}, nil}}
		d.command("%s", "list")
		if got := strings.ReplaceAll(out.String(), "\r", ""); got != test.want {
			t.Errorf("terminal %t, NO_COLOR %q: %q, want %q", test.terminal, test.noColor, got, test.want)
		}
	}
}

// TestCampus: a campus that is served again has the same address, token and root, so that what its authority stamped
// before can be verified; a port that is given replaces the old one. An address of another machine is refused.
func TestCampus(t *testing.T) {
	dir := t.TempDir()
	serve := func(port int) (listen string, root []byte) {
		c, err := openCampus(dir, port)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.Get("http://" + c.listen + "/login/index.php")
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("the Moodle: got %v, %v", answer, err)
		} else if err := answer.Body.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if root, err = os.ReadFile(filepath.Join(dir, campusName, rootFile)); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(filepath.Join(dir, campusName, tokenFile)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the token: got %v, %v", info, err)
		}
		return c.listen, root
	}
	listen, root := serve(0)
	if again, same := serve(0); again != listen || !bytes.Equal(same, root) {
		t.Errorf("got %s, then %s", listen, again)
	}
	for _, text := range []string{"{", `{"listen": "0.0.0.0:80"}`, `{"listen": "example.org:80"}`} {
		if err := os.WriteFile(filepath.Join(dir, campusName, campusRecordFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if c, err := openCampus(dir, 0); err == nil {
			t.Errorf("%s was taken: %v", text, c.Close())
		}
	}
}
