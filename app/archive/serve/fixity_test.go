package archiveserve_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/archive"
	archivemodule "github.com/stagepost/stagepost/app/archive/module"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/host"
	hostcli "github.com/stagepost/stagepost/host/cli"
)

// TestFixityOfObjects: "stagepost fixity run" reads the OCFL objects of archives. A flipped byte of an archived file is
// healed out of the package in the storage locations; one of a file that only the object has ends in exit code 5, in
// the report as well, until it is corrected.
func TestFixityOfObjects(t *testing.T) {
	f := newFixture(t)
	must(t, os.Mkdir(filepath.Join(f.data, "ocfl"), 0o750))
	f.configure("objects: {main: {path: ocfl}}\npresets: {default: {settings: {package: bag+ocfl, sign: false}}}\n")
	must(t, f.start())
	f.completed(f.submit(archive.Request{Course: "algebra"}))
	f.exits(cli.ExitOK, "fixity", "run", "--note", "control")
	f.flip("task.txt")
	f.exits(cli.ExitOK, "fixity", "run", "--note", "healed")
	if out := f.exits(cli.ExitOK, "fixity", "report", "-o", "json"); !strings.Contains(out, `"healed": 1`) ||
		!strings.Contains(out, `"objects/main"`) {
		t.Errorf("got %s", out)
	}
	f.flip("README.txt")
	if out := f.exits(cli.ExitFailed, "fixity", "run", "--note", "lost"); !strings.Contains(out, "README.txt") {
		t.Errorf("got %s", out)
	}
	f.exits(cli.ExitFailed, "fixity", "status")
	f.exits(cli.ExitFailed, "fixity", "report", "--location", "objects/main")
	if s := series(t, f.server.URL); s[`stagepost_archive_copies_faulty{location="objects/main"}`] != "1" {
		t.Errorf("got %v", s)
	}
	f.flip("README.txt")
	f.exits(cli.ExitOK, "fixity", "run", "--note", "corrected")
}

// flip flips a bit of a file of a version of an object.
func (f *fixture) flip(name string) {
	f.t.Helper()
	var all []string
	must(f.t, filepath.WalkDir(filepath.Join(f.data, "ocfl"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == name {
			all = append(all, path)
		}
		return err
	}))
	if len(all) != 1 {
		f.t.Fatalf("%s: %v", name, all)
	}
	b, err := os.ReadFile(all[0])
	must(f.t, err)
	b[0] ^= 1
	must(f.t, os.WriteFile(all[0], b, 0o600))
}

// exits runs a command against the server, and checks its exit code.
func (f *fixture) exits(code int, args ...string) string {
	f.t.Helper()
	var out bytes.Buffer
	args = append(args, "--server", f.server.URL)
	got := hostcli.New(strings.NewReader(""), &out, &out, host.NewSettings(archivemodule.New())).Run(args)
	if got != code {
		f.t.Fatalf("%v: exit code %d, want %d: %s", args, got, code, out.String())
	}
	return out.String()
}
