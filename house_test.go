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

// rule lists what the packages below a folder may import from this module. A path stands for itself and all below it.
type rule struct {
	from string
	may  string // folders, separated by spaces
	why  string
}

// everything is the list of folders of packages that may import all packages.
const everything = "*"

// allows reports whether the packages below the folder may import a package of this module.
func (r *rule) allows(dir string) bool {
	inside := func(folder string) bool { return below(dir, folder) }
	return r.may == everything || slices.ContainsFunc(strings.Fields(r.may), inside)
}

// rules has the rules of imports. The first one that fits a package applies.
var rules = []rule{
	{"lifecycle/notation", "lifecycle", "it reads and writes notations; tables do not depend on it"},
	{"lifecycle/draw", "lifecycle internal/layered", "it draws tables; tables do not depend on it"},
	{"lifecycle/lifecycletest", "lifecycle", "a table for tests"},
	{"lifecycle", "", "the tables depend on nothing"},
	{"job/words", "job", "texts as the words that records and queries have"},
	{"job", "lifecycle", "the types that all packages share"},
	{"store/internal/rules", "job lifecycle", "pure functions over records: no queue, no store"},
	{"store/internal/sizes", "", "it adds numbers"},
	{"store/internal/scheduler", "job lifecycle store/internal/sizes", "an index over records: no rules, no store"},
	{"store/internal/newest", "job", "numbers of entries: no queue, no store"},
	{"store/internal/wordsearch", "", "numbers of rows, from indexes that stores have: no store"},
	{"store/internal/watchers", "job", "the callers of Watch: no queue, no store"},
	{"store/internal/ledger", "job lifecycle store/internal/rules store/internal/scheduler store/internal/sizes",
		"the part that stores with a queue in memory share"},
	{"store/mem",
		"job lifecycle internal/answers store/internal/ledger store/internal/rules store/internal/watchers store/internal/wordsearch",
		"stores depend on no engine and not on each other"},
	{"internal/conn", "", "the library of SQLite"},
	{"internal/layered", "", "one layout for the drawings of lifecycles and flows; it depends on neither"},
	{"internal/systemd", "", "the protocol of systemd"},
	{"internal/nearest", "", "it compares words"},
	{"internal/printable", "", "it reads characters"},
	{"internal/decimal", "", "it compares numbers"},
	{"internal/byterange", "", "it corrects a header field"},
	{"internal/retryafter", "", "it parses a header field"},
	{"internal/secretfile", "", "it reads and writes files"},
	{"internal/ziptest", "", "it reads and writes ZIP files in tests"},
	{"internal/svgtest", "", "it checks drawings in tests"},
	{"internal/polltest", "", "it waits in tests"},
	{"internal/goldentest", "", "it compares files in tests"},
	{"internal/durable", "", "it reads and writes files"},
	{"internal/sharedfile", "internal/durable", "it reads and edits files"},
	{"internal/log", "internal/durable", "it appends to files and reads them"},
	{"internal/headfile", "", "it reads and writes files"},
	{"internal/pacer", "", "it counts bytes and waits"},
	{"internal/quiet", "job", "it passes on what is logged"},
	{"internal/dirowner", "job", "the lock of a directory, by a process"},
	{"internal/dirlock", "job", "the lock of a directory, by the claim of a job"},
	{"internal/build", "", "the version of the program"},
	{"internal/answers", "job", "memory of results; no store and no engine"},
	{"store/sqlite/internal/rowlog", "", "it encodes rows; what they mean is the store's"},
	{"store/sqlite",
		"job lifecycle internal/answers internal/conn internal/dirowner internal/durable internal/log internal/transfer store/internal/ledger store/internal/newest store/internal/rules store/internal/sizes store/internal/watchers store/internal/wordsearch store/sqlite",
		"stores depend on no engine and not on each other"},
	{"internal/transfer", "job", "it copies what every store has; how a store keeps it is the store's"},
	{"internal/pg", "", "texts and errors of PostgreSQL"},
	{"internal/pgtest", "", "PostgreSQL servers for tests"},
	{"internal/sqldb", "internal/pg internal/sqldb", "databases of applications; what they contain is theirs"},
	{"store/postgres", "job lifecycle internal/pg internal/transfer store/internal/newest store/internal/rules store/internal/sizes store/internal/watchers store/internal/wordsearch", "stores depend on no engine and not on each other"},
	{"store/zookeeper/internal/layout", "", "the nodes of another system's tree; no network and no job"},
	{"store/zookeeper/internal/session", "store/zookeeper/zktest", "the client library of ZooKeeper"},
	{"store/zookeeper/zktest", "", "ZooKeeper servers for tests, and a program of another system"},
	{"store/zookeeper/internal/queue",
		"store/zookeeper/internal/layout store/zookeeper/internal/session store/zookeeper/zktest",
		"operations on another system's tree; it depends on no job"},
	{"store/zookeeper/merritt", "job lifecycle store/zookeeper", "records as the nodes of another system"},
	{"store/zookeeper", "job lifecycle store/internal/ledger store/internal/rules store/internal/sizes store/internal/watchers store/zookeeper",
		"stores depend on no engine and not on each other"},
	{"store/storetest", "job lifecycle", "the tests of the contract depend on no store"},
	{"store/crash", "job lifecycle store/storetest",
		"crashes are the same for every store; the checks of the contract decide"},
	{"engine/meter", "job lifecycle", "events for metrics; the engine imports it"},
	{"engine/remote", "job lifecycle", "what remote workers exchange with the engine, which imports it"},
	{"engine/operator", "job lifecycle engine/clock", "acts of operators; the engine imports it"},
	{"engine/status", "job", "the state of an engine, which imports it"},
	{"engine/cause", "job", "causes that the engine records; applications import it"},
	{"engine/explain", "job lifecycle engine api",
		"it reads the engine and the store; its answers are those of the API"},
	{"engine/repeat", "job", "what is noted about a request; the engine reads it"},
	{"engine/hooklog", "job lifecycle engine api", "delivery logs of applications; their answers are those of the API"},
	{"engine/joblog", "job lifecycle engine api", "lines of logs are those of the API"},
	{"engine/enginetest", "job lifecycle engine", "lifecycles, steps and an engine for tests"},
	{"engine", "job lifecycle engine quantity internal/answers", "the engine depends on the contract, not on a store or an application"},
	{"flow/draw", "lifecycle flow internal/layered quantity", "drawings of flows need no engine"},
	{"flow", "job lifecycle engine flow quantity internal/decimal", "flows run on the engine"},
	{"format", "format", "files and bytes, without jobs"},
	{"edge/timestamp", "format/rfc3161", "it requests what the format describes; no jobs"},
	{"edge", "edge", "untrusted input and output, without jobs"},
	{"app/ingest/http", handlers + " app/ingest", handlersWhy},
	{"app/compute/http", handlers + " app/compute", handlersWhy},
	{"app/compute/orchestrator/module", joined + " app/compute", "a module that completes another one"},
	{"app/compute/orchestrator/cli", commands + " app/compute", commandsWhy},
	{"app/compute/orchestrator", "job lifecycle engine edge quantity internal/byterange internal/conn app/compute",
		"it completes compute, and reads another system's database"},
	{"app/flowfile/http", handlers + " app/flowfile", handlersWhy},
	{"app/custom/module", joined + " app/custom", joinedWhy},
	{"app/custom/serve", joined + " app/custom", servedWhy},
	{"app/custom/cli", commands + " app/custom", commandsWhy},
	{"app/custom/http", handlers + " app/custom", handlersWhy},
	{"app/custom", "job lifecycle engine api edge quantity app/custom", "kinds of jobs from files; " + apartWhy},
	{"app/bulk/http", handlers + " app/bulk", handlersWhy},
	{"app/ingest/module", joined + " app/ingest", joinedWhy},
	{"app/ingest/serve", joined + " app/ingest", servedWhy},
	{"app/compute/module", joined + " app/compute", joinedWhy},
	{"app/compute/serve", joined + " app/compute", servedWhy},
	{"app/flowfile/module", joined + " app/flowfile", joinedWhy},
	{"app/flowfile/serve", joined + " app/flowfile", servedWhy},
	{"app/bulk/module", joined + " app/bulk", joinedWhy},
	{"app/ingest/cli", commands + " app/ingest", commandsWhy},
	{"app/compute/agent/cli", commands + " app/compute", commandsWhy},
	{"app/compute/cli", commands + " app/compute", commandsWhy},
	{"app/flowfile/cli", commands + " app/flowfile", commandsWhy},
	{"app/bulk/cli", commands + " app/bulk", commandsWhy},
	{"app/ingest/share", "job internal/sharedfile", "links to batches in a file; no step and no engine"},
	{"app/ingest/record", "job lifecycle api format/erc app/ingest/inventory",
		"what records hold; no step and no engine"},
	{"app/ingest/workdir", "job internal/dirlock", "files of batches and jobs"},
	{"app/ingest/location", "format/ocfl app/ingest/inventory app/ingest/profile app/ingest/workdir",
		"profiles and inventory name the storage locations"},
	{"app/ingest/fsck", "job lifecycle format app/ingest/inventory app/ingest/location app/ingest/profile " +
		"app/ingest/record app/ingest/workdir",
		"it compares records, inventory and storage locations; no step and no engine"},
	{"app/ingest/merritt", "job lifecycle engine api store/zookeeper app/ingest",
		"the records of ingest as the nodes of another system, and what its programs do as events"},
	{"app/ingest/orphans", "job lifecycle engine api format/ocfl app/ingest/inventory app/ingest/location " +
		"app/ingest/record app/ingest/workdir",
		"it compares what is on disk with records and inventory"},
	{"app/ingest/profile", "api edge format", "settings of depositors, without jobs"},
	{"app/ingest/inventory", "job api format/noid internal/sqldb", "what is stored; it depends on no profile and no storage"},
	{"app/ingest/report", "job lifecycle api", "texts for depositors"},
	{"app/ingest/fixity", "api format/ocfl app/ingest/inventory", "it reads what the inventory lists"},
	{"app/ingest", "job lifecycle engine api flow format edge internal/dirlock app/ingest", apartWhy},
	{"backup", "job format backup", "it copies files; which ones, and how databases are copied, is given to it"},
	{"app/bulk", "job lifecycle engine api app/bulk",
		"it acts on jobs of all applications through the engine and depends on none of them"},
	{"app/flowfile", "job lifecycle engine api flow format edge internal/decimal app/flowfile",
		"flows as files: a language over flow; " + apartWhy},
	{"app/archive/module", joined + " app/archive", joinedWhy},
	{"app/archive/serve", joined + " app/archive internal/secretfile", servedWhy},
	{"app/archive/config", "job edge format quantity app/archive", "settings of archives from a file; no engine"},
	{"app/archive/cli", commands + " app/archive", commandsWhy},
	{"app/archive/verify", "format/bagit format/rfc3161 app/archive/sign", "files alone: no server, step or catalog"},
	{"app/archive/http", handlers + " format/premis app/archive", handlersWhy},
	{"app/archive/packaging", "format app/archive/source", "it makes files of files and facts; no step and no engine"},
	{"app/archive/pattern", "app/archive/source", "names of archives and their folders; no step and no engine"},
	{"app/archive/workdir", "job internal/dirlock app/archive/source", "files of one job"},
	{"app/archive/catalog", "api internal/sqldb app/archive/catalog", "what is archived; it depends on no source, storage or step"},
	{"app/archive/copies", "edge/storage format/ocfl app/archive/catalog",
		"what the catalog lists, in locations; no step"},
	{"app/archive/sign", "edge/timestamp format/rfc3161 app/archive/catalog", "time stamps of files; no step and no engine"},
	{"app/archive/custody", "job lifecycle engine api format/premis app/archive/catalog app/archive/copies",
		"archives after they were made; it depends on no source and no step"},
	{"app/archive/settings", "job api edge/mail quantity app/archive/copies app/archive/notify app/archive/pattern " +
		"app/archive/source", "presets and what settings can be; no step and no engine"},
	{"app/archive/course", "job api engine/cause app/archive/catalog app/archive/custody app/archive/packaging " +
		"app/archive/source", "it compares a course with the catalog; no step"},
	{"app/archive/printing", "job app/archive/pdf app/archive/source app/archive/workdir",
		"PDF files of the files that an archive job gathered; no step and no engine"},
	{"app/archive/trigger", "job lifecycle engine api edge/webhook quantity app/archive",
		"it starts archive jobs through the application and the engine"},
	{"app/archive/notify", "job lifecycle engine api edge/mail edge/webhook internal/secretfile",
		"it reports changes to other systems; no step"},
	{"app/archive/audit", "api edge/storage format/ocfl app/archive/catalog app/archive/copies",
		"it reads what the catalog lists"},
	{"app/archive/pdf", "job lifecycle engine api worker edge/sandbox",
		"jobs of their own, and the worker that does them; no archive job"},
	{"app/archive/quizprinter", "app/archive/pdf", "the client of other programs that print; no job and no server"},
	{"app/archive/quizworker", "job lifecycle engine internal/dirlock app/archive/packaging app/archive/pdf " +
		"app/archive/source", "the worker of other systems' archives; no archive job"},
	{"app/archive", "job lifecycle engine api flow format edge quantity internal/dirlock app/archive", apartWhy},
	{"app/compute", "job lifecycle engine api flow format edge quantity internal/byterange app/compute", apartWhy},
	{"api", "job lifecycle quantity", "the wire types of the API, which server, applications and client share"},
	{"quantity", "", "how sizes and times are written; all packages may use it"},
	{"history", "job lifecycle edge/timestamp format/rfc3161 internal/dirlock",
		"anchors, checkpoints and exports of histories; it depends on no store and no engine"},
	{"worker", "job lifecycle engine api", "it runs steps of an engine over the worker API, whose client it is given"},
	{"client/credential", "job api internal/durable internal/secretfile",
		"certificates of workers: files and requests, without the rest of the client"},
	{"internal/eventstream", "", "it reads streams"},
	{"client", "job lifecycle api internal/eventstream", "the API in Go; it depends on the wire types, not on the server"},
	{"config", "quantity format/tree", "settings of any program"},
	{"module", "job lifecycle engine api client backup cli config server edge/mail edge/timestamp store/zookeeper",
		"what an application registers; it depends on none"},
	{"host/stores", "job lifecycle client cli history edge/disk internal/dirowner internal/durable internal/transfer store",
		"the kinds of stores and what each has; it depends on no server and no module"},
	{"host/cli", hosting + " host", "commands about a server and its data directory"},
	{"host", hosting + " host/stores", "a server in one process; it joins modules and depends on none of them"},
	{"cli/jobs", "job lifecycle client api quantity cli",
		"commands for jobs of every kind; applications add theirs (cli.Part)"},
	{"cli", "job lifecycle client api quantity config server/token internal/build",
		"the kernel of the command line; applications add their commands (cli.Part)"},
	{"server/identity", "", "who sends a request: it depends on no way to sign in"},
	{"server/account", "internal/sharedfile server/identity", "local users in a file: no job, no route"},
	{"server/authority", "job lifecycle engine api server internal/durable internal/secretfile internal/sharedfile",
		"the local certificate authority: a source of identities, with its routes"},
	{"server/grants", "lifecycle internal/sharedfile server/account server/authority server/identity server/token",
		"it compares the files that give access"},
	{"server/kept", "internal/dirlock", "answers in files: no route"},
	{"server/ratelimit", "", "it counts"},
	{"server/token", "api internal/sharedfile server/identity", "API tokens in a file: no job, no route"},
	{"server/servertest", "job lifecycle engine api client server store/mem",
		"a server for tests, on a store in memory"},
	{"server/metrics", "job lifecycle engine api server edge/disk", "it counts, and asks for the space of disks"},
	{"server", "job lifecycle engine flow api internal/byterange server",
		"the API over the engine; applications bring their routes (server.Part)"},
	{"web/amount", "api", "it writes texts"},
	{"web/filters", "", "it reads addresses"},
	{"web/timeline", "job lifecycle web/amount", "it arranges entries of histories"},
	{"web/hours", "api job web/amount", "it draws counts"},
	{"web/recent", "", "it keeps a result"},
	{"web/entered", "job api", "it reads forms"},
	{"web/plain", "job lifecycle", "it writes texts"},
	{"web/markup", "job", "it writes texts"},
	{"web/access", "job api server web", "pages over the operations of the API"},
	{"web", "job lifecycle api quantity server web/amount web/entered web/filters web/hours web/markup " +
		"web/plain web/timeline web/recent",
		"pages over the operations of the API; applications bring theirs (server.Pages)"},
	{"docs", "lifecycle app flow docs", "documents that are made from the tables"},
	{"bench", everything, "it measures all packages"},
	{"examples", everything, "they use all packages as other programs do"},
	{"cmd", everything, "the wiring"},
}

// everywhere are internal packages that use the standard library only. All packages may import them.
var everywhere = []string{"internal/nearest", "internal/printable", "internal/durable", "internal/retryafter",
	"internal/secretfile", "internal/headfile", "internal/pacer", "internal/sharedfile"}

// apart are modules that a program can be built without. Only the listed packages import them, in tests too.
var apart = []rule{
	{"app/compute/orchestrator", "cmd bench", "compute works without compatibility with job-orchestrator"},
}

// handlers is what the routes of an application may import besides the application.
const handlers = "job lifecycle engine flow format edge quantity api server web"

// joined is what the packages that join an application to a program may import.
const joined = "job lifecycle engine flow format edge quantity client api server store backup cli config host " +
	"module internal/build internal/conn internal/durable"

// hosting is what a server in one process may import.
const hosting = "job lifecycle engine client worker api server store backup cli config module web edge/disk " +
	"edge/mail edge/timestamp history quantity format internal"

// commands is what the commands of an application may import besides the application.
const commands = "job lifecycle engine flow format edge quantity client api server store cli config host " +
	"internal/build"

// Reasons that several rules share.
const (
	apartWhy    = "applications do not depend on each other"
	commandsWhy = "commands depend on the command line and their application; " + apartWhy
	handlersWhy = "routes depend on the server and their application; " + apartWhy
	joinedWhy   = "an application as a module: it joins its folders"
	servedWhy   = "it opens an application in a server"
)

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
			t.Errorf("%s: no rule lists what %s may import: add one with its reason", file, dir)
			continue
		}
		for _, path := range imports {
			inner, own := strings.CutPrefix(path, module+"/")
			switch {
			case own && !r.allows(inner) && !slices.Contains(everywhere, inner):
				t.Errorf("%s imports %s: %s", file, inner, r.why)
			case !own && slices.Contains(std, dir) && strings.Contains(path, "."):
				t.Errorf("%s imports %s: %s uses the standard library only", file, path, dir)
			}
		}
	}
}

// TestImportRuleSees is the control: a forbidden import is found.
func TestImportRuleSees(t *testing.T) {
	if fits("store/sqlite").allows("engine") {
		t.Error("a store that imports the engine must be refused")
	}
	if fits("somewhere/else") != nil {
		t.Error("a folder without a rule must be reported")
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

// together returns why a package may not import a path that belongs to a module; "" if it may.
func together(dir, path string) string {
	inner, own := strings.CutPrefix(path, module+"/")
	for _, m := range apart {
		if own && below(inner, m.from) && !below(dir, m.from) && !m.allows(dir) {
			return m.why
		}
	}
	return ""
}

// applications are names that generic packages do not use.
var applications = regexp.MustCompile(`\b[Ii]ngest\w*|\bCompute[A-Z]\w*|\b(compute|flow|bulk)http\b|` +
	`\bcompute jobs?\b|\bapp/\w+|(?i)\b(flowfile|moodle|merritt|ga4gh)\b`)

// nameless are the generic packages that name no application. Their tests may.
var nameless = strings.Fields(`
	server server/metrics server/hub server/lean server/listen server/problem server/session
	server/token server/transfer server/servertest job lifecycle lifecycle/draw engine
	engine/explain engine/joblog engine/remote engine/operator engine/status engine/cause cli
	config host host/cli module backup web
`)

// TestGenericPackagesNameNoApplication refuses the name of an application in a generic package: in code, texts and
// comments.
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
	for _, planted := range []string{ // the control
		"x := 1\n// as ingest does\n", "a\nvar ComputeUploads int\n", "b\n\"app/ingest/http\"\n",
	} {
		if applicationsIn(planted)[2] == "" {
			t.Errorf("%q is not found", planted)
		}
	}
}

// applicationsIn returns the first application that each line of a text names, by the line's number.
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
