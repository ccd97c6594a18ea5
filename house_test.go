package stagepost_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/stagepost/stagepost"

// rule says what the packages below a folder may import of this module. A path stands for itself and all below it.
type rule struct {
	from string
	may  []string
	why  string
}

// rules is the import rule of the house. The first rule that fits a package holds.
var rules = []rule{
	{"lifecycle/notation", []string{"lifecycle"}, "notations are read and written; the tables know nothing of them"},
	{"lifecycle/draw", []string{"lifecycle", "internal/layered"}, "drawings are read from the tables; the tables know nothing of them"},
	{"lifecycle", nil, "the judge depends on nobody"},
	{"job", []string{"lifecycle"}, "the words that all share"},
	{"store/internal/queue", []string{"job", "lifecycle"}, "an index over records"},
	{"store/internal/ledger", []string{"job", "lifecycle", "store/internal/queue"}, "what stores with a queue in memory share"},
	{"store/mem", []string{"job", "lifecycle", "store/internal/ledger"}, "stores know no engine and not each other"},
	{"internal/conn", nil, "SQLite's library"},
	{"internal/layered", nil, "one layout for the drawings of lifecycles and flows; it knows neither"},
	{"internal/systemd", nil, "the protocol of systemd"},
	{"internal/nearest", nil, "words alone"},
	{"internal/secretfile", nil, "files alone"},
	{"internal/durable", nil, "files alone"},
	{"internal/build", nil, "the version of the program"},
	{"store/sqlite", []string{"job", "lifecycle", "internal/conn", "store/internal/ledger", "store/sqlite"}, "stores know no engine and not each other"},
	{"store/storetest", []string{"job", "lifecycle"}, "the contract in tests knows no store"},
	{"store/crash", []string{"job", "lifecycle", "store/storetest"}, "crashes are the same for every store, and are judged by the contract's own checks"},
	{"engine/meter", []string{"job", "lifecycle"}, "words for those who count; the engine imports them"},
	{"engine/remote", []string{"job", "lifecycle"}, "what remote workers exchange with the engine, which imports it"},
	{"engine/operator", []string{"job", "lifecycle", "engine/clock"}, "acts of operators; the engine imports it"},
	{"engine/status", []string{"job"}, "the state of an engine, which imports it"},
	{"engine/cause", []string{"job"}, "causes that the engine records; applications import it"},
	{"engine/explain", []string{"job", "lifecycle", "engine", "api"}, "it reads the engine and the store, and stands above both; its answers are those of the API"},
	{"engine/joblog", []string{"job", "lifecycle", "engine", "api"}, "lines of logs are those of the API"},
	{"engine", []string{"job", "lifecycle", "engine"}, "the engine knows the contract, not a store and no application"},
	{"flow/draw", []string{"lifecycle", "flow", "internal/layered", "quantity"}, "pictures of flows need no engine"},
	{"flow", []string{"job", "lifecycle", "engine", "flow", "quantity"}, "flows run on the engine"},
	{"format", []string{"format"}, "files and bytes know no job"},
	{"edge", []string{"edge"}, "the hostile outside knows no job"},
	{"app/ingest/http", append(handlers, "app/ingest"), handlersWhy},
	{"app/compute/http", append(handlers, "app/compute"), handlersWhy},
	{"app/compute/orchestrator/module", append(joined, "app/compute"), "a module that completes another one"},
	{"app/compute/orchestrator/cli", append(commands, "app/compute"), commandsWhy},
	{"app/compute/orchestrator", []string{"job", "lifecycle", "engine", "edge", "quantity", "internal/conn", "app/compute"}, "it completes compute, and reads another system's database"},
	{"app/flowfile/http", append(handlers, "app/flowfile"), handlersWhy},
	{"app/custom/module", append(joined, "app/custom"), "an application as a module: it joins its folders"},
	{"app/custom/serve", append(joined, "app/custom"), "opens an application in a server"},
	{"app/custom/cli", append(commands, "app/custom"), commandsWhy},
	{"app/custom/http", append(handlers, "app/custom"), handlersWhy},
	{"app/custom", []string{"job", "lifecycle", "engine", "api", "edge", "quantity", "app/custom"}, "kinds of jobs from files; applications do not see each other"},
	{"app/bulk/http", append(handlers, "app/bulk"), handlersWhy},
	{"app/ingest/module", append(joined, "app/ingest"), "an application as a module: it joins its folders"},
	{"app/ingest/serve", append(joined, "app/ingest"), "opens an application in a server"},
	{"app/compute/module", append(joined, "app/compute"), "an application as a module: it joins its folders"},
	{"app/compute/serve", append(joined, "app/compute"), "opens an application in a server"},
	{"app/flowfile/module", append(joined, "app/flowfile"), "an application as a module: it joins its folders"},
	{"app/flowfile/serve", append(joined, "app/flowfile"), "opens an application in a server"},
	{"app/bulk/module", append(joined, "app/bulk"), "an application as a module: it joins its folders"},
	{"app/ingest/cli", append(commands, "app/ingest"), commandsWhy},
	{"app/compute/agent/cli", append(commands, "app/compute"), commandsWhy},
	{"app/compute/cli", append(commands, "app/compute"), commandsWhy},
	{"app/flowfile/cli", append(commands, "app/flowfile"), commandsWhy},
	{"app/bulk/cli", append(commands, "app/bulk"), commandsWhy},
	{"app/ingest/record", []string{"job", "lifecycle", "api", "format/erc", "app/ingest/inventory"}, "what records hold; no step and no engine"},
	{"app/ingest/workdir", []string{"job"}, "files of batches and jobs"},
	{"app/ingest/location", []string{"format/ocfl", "app/ingest/inventory", "app/ingest/profile", "app/ingest/workdir"}, "profiles and inventory name the storage locations"},
	{"app/ingest/fsck", []string{"job", "lifecycle", "format", "app/ingest/inventory", "app/ingest/location", "app/ingest/profile", "app/ingest/record", "app/ingest/workdir"}, "it compares records, inventory and storage locations; no step and no engine"},
	{"app/ingest/orphans", []string{"job", "lifecycle", "engine", "api", "format/ocfl", "app/ingest/inventory", "app/ingest/location", "app/ingest/record", "app/ingest/workdir"}, "it compares what is on disk with records and inventory"},
	{"app/ingest/profile", []string{"api", "edge", "format"}, "settings of depositors; they know no job"},
	{"app/ingest/inventory", []string{"job", "api", "format/noid"}, "what is stored; it knows no profile and no storage"},
	{"app/ingest/report", []string{"job", "lifecycle", "api"}, "texts for depositors"},
	{"app/ingest/fixity", []string{"api", "format/ocfl", "app/ingest/inventory"}, "it reads what the inventory lists"},
	{"app/ingest", []string{"job", "lifecycle", "engine", "api", "flow", "format", "edge", "app/ingest"}, "applications do not see each other"},
	{"backup", []string{"job", "format", "backup"}, "it copies files; which ones, and how databases are copied, is given to it"},
	{"app/bulk", []string{"job", "lifecycle", "engine", "api", "app/bulk"}, "it acts on jobs of every application through the engine and knows none of them"},
	{"app/flowfile", []string{"job", "lifecycle", "engine", "api", "flow", "format", "edge", "app/flowfile"}, "flows as files: a language over flow; applications do not see each other"},
	{"app/archive", []string{"job", "lifecycle", "engine", "flow", "format", "edge", "app/archive"}, "applications do not see each other"},
	{"app/compute", []string{"job", "lifecycle", "engine", "api", "flow", "format", "edge", "quantity", "app/compute"}, "applications do not see each other"},
	{"api", []string{"job", "lifecycle", "quantity"}, "the wire types of the API: words that server, applications and client share"},
	{"quantity", nil, "how sizes and times are written; all who read them may use it"},
	{"client", []string{"job", "lifecycle", "api"}, "the API in Go; it knows the words, not the machine"},
	{"config", []string{"quantity", "format/tree"}, "settings of any program"},
	{"module", []string{"job", "lifecycle", "engine", "backup", "cli", "config", "server"}, "what an application registers; it knows none"},
	{"host/cli", append(hosting, "host"), "commands about a server and its data directory"},
	{"host", hosting, "a server in one process; it joins modules and knows none of them"},
	{"cli/jobs", []string{"job", "lifecycle", "client", "api", "quantity", "cli"}, "commands for jobs of every kind; applications add what they know (cli.Part)"},
	{"cli", []string{"job", "lifecycle", "client", "api", "quantity", "config", "server/token", "internal/build"}, "the kernel of the command line; applications add their commands (cli.Part)"},
	{"server/servertest", []string{"job", "lifecycle", "engine", "api", "client", "server", "store/mem"}, "a server for tests, on a store in memory"},
	{"server", []string{"job", "lifecycle", "engine", "flow", "api", "server"}, "the API over the engine; applications bring their routes (server.Part)"},
	{"docs", []string{"lifecycle", "app", "flow", "docs"}, "documents that are made from the tables"},
	{"bench", []string{""}, "measures everything"},
	{"examples", []string{""}, "uses everything as a stranger would"},
	{"cmd", []string{""}, "the wiring"},
}

// everywhere are internal packages of the standard library alone, which all may import.
var everywhere = []string{"internal/nearest", "internal/durable", "internal/secretfile"}

// apart are modules that a program can be built without: beside them only the wiring imports them, tests included.
var apart = []rule{
	{"app/compute/orchestrator", []string{"cmd", "bench"}, "compute works without compatibility with job-orchestrator"},
}

// handlers are what the routes of an application may import beside it.
var handlers = slices.Clip([]string{"job", "lifecycle", "engine", "flow", "format", "edge", "quantity", "api", "server"})

// joined are what joins an application to a program.
var joined = slices.Clip([]string{
	"job", "lifecycle", "engine", "flow", "format", "edge", "quantity", "client", "api", "server", "store", "backup", "cli", "config", "host", "module",
	"internal/build", "internal/conn", "internal/durable",
})

// hosting are what a server in one process is made of.
var hosting = slices.Clip([]string{
	"job", "lifecycle", "engine", "client", "api", "server", "store", "backup", "cli", "config", "module", "edge/disk", "quantity", "format", "internal",
})

// commands are what the commands of an application may import beside it.
var commands = slices.Clip([]string{"job", "lifecycle", "engine", "flow", "format", "edge", "quantity", "client", "api", "server", "store", "cli", "config", "host", "internal/build"})

const commandsWhy = "commands of an application know the command line and their application; applications do not see each other"

const handlersWhy = "routes of an application know the server and their application; applications do not see each other"

// std lists the folders that use the standard library only.
var std = append([]string{"lifecycle", "lifecycle/draw", "internal/layered", "job", "quantity", "api"}, everywhere...)

func TestImports(t *testing.T) {
	for file, imports := range sources(t) {
		dir := filepath.ToSlash(filepath.Dir(file))
		if dir == "." || strings.HasSuffix(file, "_test.go") {
			continue
		}
		r := fits(dir)
		if r == nil {
			t.Errorf("%s: no rule says what %s may import: add one with its reason", file, dir)
			continue
		}
		for _, path := range imports {
			inner, own := strings.CutPrefix(path, module+"/")
			switch {
			case own && !slices.ContainsFunc(r.may, func(m string) bool { return m == "" || below(inner, m) }) && !slices.Contains(everywhere, inner):
				t.Errorf("%s imports %s: %s", file, inner, r.why)
			case !own && slices.Contains(std, dir) && strings.Contains(path, "."):
				t.Errorf("%s imports %s: %s uses the standard library only", file, path, dir)
			}
		}
	}
}

// TestImportRuleSees is the control: a forbidden import is found.
func TestImportRuleSees(t *testing.T) {
	if r := fits("store/sqlite"); slices.ContainsFunc(r.may, func(m string) bool { return below("engine", m) }) {
		t.Error("a store that imports the engine must be refused")
	}
	if fits("somewhere/else") != nil {
		t.Error("a folder without a rule must be noticed")
	}
}

// TestModulesStayApart refuses imports of a module that a program can be built without.
func TestModulesStayApart(t *testing.T) {
	for file, imports := range sources(t) {
		for _, path := range imports {
			if why := together(filepath.ToSlash(filepath.Dir(file)), path); why != "" {
				t.Errorf("%s imports %s: %s", file, path, why)
			}
		}
	}
	wire := module + "/app/compute/orchestrator/wire"
	for dir, refused := range map[string]bool{ // the control
		"app/compute": true, "app/compute/agent": true, "app/compute/http": true, "server": true, "host": true,
		"app/compute/orchestrator": false, "app/compute/orchestrator/trials": false, "cmd/stagepost": false,
	} {
		if (together(dir, wire) != "") != refused {
			t.Errorf("%s: refused is not %v", dir, refused)
		}
	}
}

// together says why a package may not import a path; "" if it may, as far as modules go.
func together(dir, path string) string {
	inner, own := strings.CutPrefix(path, module+"/")
	for _, m := range apart {
		if own && below(inner, m.from) && !below(dir, m.from) && !slices.ContainsFunc(m.may, func(f string) bool { return below(dir, f) }) {
			return m.why
		}
	}
	return ""
}

// applications are names that generic packages do not use.
var applications = regexp.MustCompile(`\b[Ii]ngest\w*|\bCompute[A-Z]\w*|\b(compute|flow|bulk)http\b|\bcompute jobs?\b|\bapp/\w+|(?i)\b(flowfile|moodle|merritt|ga4gh)\b`)

// nameless are the generic packages that name no application. Tests of them may.
var nameless = []string{"server", "server/metrics", "server/hub", "server/lean", "server/listen", "server/problem", "server/session", "server/token", "server/transfer", "server/servertest", "job", "lifecycle", "lifecycle/draw", "engine", "engine/explain", "engine/joblog", "engine/remote", "engine/operator", "engine/status", "engine/cause", "cli", "config", "host", "host/cli",
	"module", "backup"}

// TestGenericPackagesNameNoApplication refuses the name of an application in a generic package: in code, in texts and in comments.
func TestGenericPackagesNameNoApplication(t *testing.T) {
	for _, dir := range nameless {
		files, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for line, found := range applicationsIn(string(text)) {
				t.Errorf("%s:%d names the application %s", file, line, found)
			}
		}
	}
	for _, planted := range []string{"x := 1\n// as ingest does\n", "a\nvar ComputeUploads int\n", "b\n\"app/ingest/http\"\n"} { // the control
		if applicationsIn(planted)[2] == "" {
			t.Errorf("%q is not noticed", planted)
		}
	}
}

// applicationsIn gives the first application that each line of a text names, by the line's number.
func applicationsIn(text string) map[int]string {
	all := map[int]string{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		if found := applications.FindString(line); found != "" {
			all[n] = found
		}
	}
	return all
}

// TestNoLargeFiles finds programs and data that were added by mistake.
func TestNoLargeFiles(t *testing.T) {
	const most = 1 << 20
	seen := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (path == "bin" || path != "." && strings.HasPrefix(d.Name(), ".")) {
			if d != nil && d.IsDir() {
				return filepath.SkipDir
			}
			return err
		}
		info, err := d.Info()
		if err != nil || d.IsDir() {
			return err
		}
		if seen++; info.Size() > most {
			t.Errorf("%s has %d bytes: a repository of source has no such file", path, info.Size())
		}
		return nil
	})
	if err != nil || seen < 100 {
		t.Errorf("%d files, %v", seen, err)
	}
}

// TestDependencies compares the direct dependencies with docs/dependencies.md, where each is argued for.
func TestDependencies(t *testing.T) {
	text, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, imports := range sources(t) {
		for _, path := range imports {
			if strings.Contains(strings.Split(path, "/")[0], ".") && !strings.HasPrefix(path, module) {
				used[path] = true
			}
		}
	}
	argued := 0
	for line := range strings.Lines(string(text)) {
		mod, ok := strings.CutPrefix(line, "| `")
		if !ok {
			continue
		}
		argued++
		mod, _, _ = strings.Cut(mod, "`")
		found := false
		for path := range used {
			if below(path, mod) {
				delete(used, path)
				found = true
			}
		}
		if !found {
			t.Errorf("docs/dependencies.md argues for %s, which nothing imports", mod)
		}
	}
	for path := range used {
		t.Errorf("%s is imported and docs/dependencies.md does not argue for it", path)
	}
	if argued == 0 {
		t.Error("docs/dependencies.md lists nothing: its form has changed")
	}
}

func fits(dir string) *rule {
	for i := range rules {
		if below(dir, rules[i].from) {
			return &rules[i]
		}
	}
	return nil
}

func below(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

// sources parses the imports of every Go file of the module.
func sources(t *testing.T) map[string][]string {
	t.Helper()
	files := map[string][]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || (d.IsDir() && path != "." && strings.HasPrefix(d.Name(), ".")) || d.Name() == "testdata" {
			if d != nil && d.IsDir() {
				return filepath.SkipDir
			}
			return err
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		files[path] = []string{}
		for _, i := range f.Imports {
			p, _ := strconv.Unquote(i.Path.Value)
			files[path] = append(files[path], p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("only %d Go files found: the walk is broken", len(files))
	}
	return files
}

// TestNobodySleeps: tests wait for signals. Sleeping is for packages whose tests run on fake time (testing/synctest), and there for bubbles. In bench clients pause between their
// questions, as those do whose speed is measured.
func TestNobodySleeps(t *testing.T) {
	fake, sleepers := map[string]bool{}, map[string]string{}
	for file, imports := range sources(t) {
		dir := filepath.Dir(file)
		fake[dir] = fake[dir] || slices.Contains(imports, "testing/synctest")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") && file != "house_test.go" && dir != "bench" && strings.Contains(string(text), "time.Sleep(") {
			sleepers[dir] = file
		}
	}
	for dir, file := range sleepers {
		if !fake[dir] {
			t.Errorf("%s sleeps, and no test of its package runs on fake time: wait for a signal", file)
		}
	}
	if len(sleepers) == 0 {
		t.Error("control: nobody sleeps in any bubble: the search has broken")
	}
}
