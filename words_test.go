package stagepost_test

import (
	"bytes"
	"go/ast"
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
	"unicode"
	"unicode/utf8"
)

// plain lists the folders and documents that TestPlainWords checks. A path stands for itself and all below it.
var plain = []string{
	"words_test.go",
	"web",
	"format",
	"job",
	"quantity",
	"engine",
	"lifecycle",
	"comments_test.go",
	"exported_test.go",
	"files_test.go",
	"api",
	"app/bulk",
	"app/custom",
	"backup",
	"client",
	"store",
	"app/archive",
	"app/compute",
	"bench",
	"edge",
	"internal",
	"history",
	"house_test.go",
	"peers_test.go",
	"sizes_test.go",
	"soak_test.go",
	"app/flowfile",
	"flow/draw",
	"flow/durable",
	"flow/flowtest",
	"flow/internal",
	"CONTRIBUTING.md",
	"docs/compute.md",
	"app/ingest",
	"docs/dependencies.md",
	"docs/flows.md",
	"docs/glossary.md",
	"docs/job-orchestrator.md",
	"docs/merritt.md",
	"README.md",
	"SECURITY.md",
	"release_test.go",
	"docs/archive.md",
	"docs/packages.md",
	"docs/ingest.md",
	"docs/custom.md",
	"docs/embedding.md",
	"docs/modules.md",
	"docs/cli.md",
	"docs/config.md",
	"docs/design.md",
	"docs/lifecycles.md",
	"docs/operating.md",
	"docs/security.md",
	"docs/performance.md",
	"examples/compute",
	"examples/custom",
	"examples/demo",
	"examples/embed",
	"examples/flow-fanout",
	"examples/flow-resume",
	"examples/flow-vm",
	"examples/ingest",
	"examples/module",
	"examples/worker",
	"changelog/unreleased",
	"cmd/stagepost/doccommands_test.go",
	"cmd/stagepost/quickstart_test.go",
	"cmd/stagepost/demo_test.go",
	"server",
	"host",
	"cli",
	"cmd",
	"examples",
	"app",
	"docs/docs_test.go",
	"docs/drawing_test.go",
	"docs/walk_test.go",
	"durations_test.go",
	"wire_test.go",
	"scripts",
	"contrib",
	"config",
	"module",
	"flow",
}

// unplain lists the expressions that code and documents do not use, each with the terms that replace it.
var unplain = []struct{ avoid, use string }{
	{`arrows?|ways? out|ways? in|the law`, "transition, exit, entry, lifecycle"},
	{`judges?|judged|judging|rule ?books?`, "lifecycle, specification, decides"},
	{`hears?|heard|tells?|told|word from`, "is notified, notifies, message, reports"},
	{`tak(?:es?|en|ing) back|took back|call(?:s|ed|ing)? off`, "rolled back, reverted, cancelled"},
	{`giv(?:es?|en|ing) up|gave up`, "abandons (attempts exhausted)"},
	{`wish(?:es|ed)?|looks?|looked|looking|sights?|says?|said|saying|hands`, "request, query, view, report, claim holder"},
	{`bury|buries|buried|mortal`, "reap, killable"},
	{`keepers?|rosters?|books?|sites?|rooms?|places?`,
		"maintenance, agent registry, index, service config, free space, storage location"},
	{`fell silent|falls? silent|dies|died|who had it`, "lease expired, crashed worker"},
	{`for ?ever|behind the backs?|before its time`, "indefinitely, concurrently with, early"},
	{`makes? no sense|no such (?:thing|a|one)|such a one`, "invalid request: REASON, not found: OBJECT"},
	{`belongs? to nothing|stands? under|nothing is there`, "orphaned, held, does not exist"},
	{`worlds?`, "harness, fixture, simulation"},
	{`wants|knows|whoever|nobody`, "needs, has, each caller, no user (no personification, no riddles)"},
	{`by hand|hand-?written`, "manually, explicit, of its own"},
	{`for good`, "permanently"},
	{`everyone|everybody`, "all users, every caller, all processes"},
	{`spec/[a-z]+\.md`, "the source itself: RFC and section, or the system that is described"},
}

// standard lists phrases in which words of that list have their standard meaning.
var standard = []string{
	`call sites?`, `web sites?`, `in place`, `tak(?:es?|ing) place`, `decimal places?`, `look(?:s|ed|ing)? up`,
	`way in(?:to| which)`, `world[- ](?:readable|writable|wide)`, `hello,? (?:<b>)?world`, `real[- ]world`,
	`place=\w+`, `site=site`, `(?:into|from) room`, `code .room`, `cross-site`, `moodle/site`, `demo site`, `arrow keys?`,
	`cannot read what it knows`, `looking for beginning`, `inventory.head says`, `lab.book`, `book_01`, `book\.yaml`,
	`(?:A|The) book is|The book cannot`, `prefix: book`, `tell the archive`, `arrows:(?:\\n|\W+events?)`, `manifest says`,
	`who: world`, `place. string`, `stagepost (?:hold|release) --place`, `agent-died`, `v1/room`,
}

// sqlText matches statements of SQL, which have the names of stored tables.
var sqlText = regexp.MustCompile("^[\"`]\\s*(?:SELECT|INSERT|UPDATE|DELETE|CREATE) ")

// images are words that no declared name has as a part.
var images = strings.Fields("arrow judge judges mortal bury keeper roster world wish sight hear hears tells told law whoever nobody")

const columns = 120

// TestPlainWords refuses the left column of the glossary in comments, messages, declared names and documents, and lines
// of Go that are longer than 120 columns.
func TestPlainWords(t *testing.T) {
	checked := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != "." && strings.HasPrefix(d.Name(), ".") {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.ContainsFunc(plain, func(p string) bool { return p == "all" || below(filepath.ToSlash(path), p) }) {
			return nil
		}
		var faults []string
		switch text, err := os.ReadFile(path); {
		case err != nil:
			return err
		case strings.HasSuffix(path, ".go") && path != "words_test.go":
			faults = unplainGo(path, text)
		case strings.HasSuffix(path, ".md"):
			faults = unplainText(1, string(text))
		}
		checked++
		for _, f := range faults {
			t.Errorf("%s:%s", path, f)
		}
		return nil
	})
	if err != nil || checked < len(plain) {
		t.Errorf("%d files were checked, %v", checked, err)
	}
}

// TestPlainWordsSees is the control: planted words are found, and their standard meanings are not.
func TestPlainWordsSees(t *testing.T) {
	long := "var x = \"" + strings.Repeat("y", columns) + "\""
	for _, planted := range []string{
		"// The keeper of it.", "// nobody\n", "/* the room\nis full */", `var e = "there is no such thing"`,
		"var a, tellsAll int", "type world struct{}", "func f(arrowOf int) {}", "func f() { for judge := range 3 {} }",
		"type s struct{ roster []int }", "// spec/merritt.md section 3", "// A site, and its call sites.", long,
		"const a = `one\ntwo wish three`", "// It is edited by hand.", "// A hand-written form.", "// It fails for good.",
		`var e = "everybody may read it"`, "// Everyone.", "func Told() {}", "func f() { mortal := 1; _ = mortal }",
	} {
		if len(unplainGo("x.go", []byte("package x\n"+planted+"\n"))) != 1 {
			t.Errorf("%s: %q", planted, unplainGo("x.go", []byte("package x\n"+planted+"\n")))
		}
	}
	for _, fine := range []string{
		"// It sorts in place at each call site.", `var kind = "book"`, "// It looks up a world-readable file.",
		`const s = "SELECT place FROM places"`, "var unsigned, essay, lawful, foretold int", "import \"a/b/site\"", "type s struct{ x int `look:\"a say\"` }",
	} {
		if faults := unplainGo("x.go", []byte("package x\n"+fine+"\n")); len(faults) != 0 {
			t.Errorf("%s: %q", fine, faults)
		}
	}
	if faults := unplainText(7, "one\ntwo\nIt is told."); len(faults) != 1 || !strings.HasPrefix(faults[0], "9: ") {
		t.Errorf("a document: %q", faults)
	}
}

var (
	unplainGroups = func() (all []string) {
		for _, u := range unplain {
			all = append(all, "("+u.avoid+")")
		}
		return all
	}()
	// unplainWords has the standard phrases first, without a group: a phrase that begins earlier wins.
	unplainWords = regexp.MustCompile(`(?i)\b(?:` + strings.Join(standard, "|") + "|" + strings.Join(unplainGroups, "|") + `)\b`)
)

// unplainText gives the faults of a text that begins in a line.
func unplainText(line int, text string) (faults []string) {
	for _, m := range unplainWords.FindAllStringSubmatchIndex(text, -1) {
		for i, u := range unplain {
			if at := m[2+2*i]; at >= 0 {
				faults = append(faults, faultAt(line+strings.Count(text[:at], "\n"), text[at:m[3+2*i]], u.use))
			}
		}
	}
	return faults
}

// unplainGo gives the faults of a Go file.
func unplainGo(path string, text []byte) (faults []string) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return append(faults, err.Error())
	}
	data := map[int]bool{} // lines of examples' output, raw literals, tags, and tests with a long literal
	for _, g := range f.Comments {
		if strings.Contains(g.Text(), "Output:\n") {
			for at := files.Position(g.Pos()).Line; at <= files.Position(g.End()).Line; at++ {
				data[at] = true
			}
		}
		for _, c := range g.List {
			faults = append(faults, unplainText(files.Position(c.Pos()).Line, c.Text)...)
		}
	}
	line := func(n ast.Node) int { return files.Position(n.Pos()).Line }
	named := func(names ...*ast.Ident) {
		for _, name := range names {
			for _, part := range parts(name.Name) {
				if slices.Contains(images, part) {
					faults = append(faults, faultAt(line(name), name.Name, "a name in the glossary's terms"))
				}
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if n.Kind == token.STRING && strings.Contains(n.Value, " ") && !sqlText.MatchString(n.Value) { // a single word is data
				faults = append(faults, unplainText(line(n), n.Value)...)
			}
			if n.Kind == token.STRING && (strings.Contains(n.Value, "\n") ||
				len(n.Value) > columns/3 && strings.HasSuffix(path, "_test.go")) {
				for at := line(n); at <= files.Position(n.End()).Line; at++ {
					data[at] = true
				}
			}
		case *ast.FuncDecl:
			named(n.Name)
		case *ast.TypeSpec:
			named(n.Name)
		case *ast.ValueSpec:
			named(n.Names...)
		case *ast.Field:
			named(n.Names...)
			if n.Tag != nil { // it cannot be broken
				data[line(n.Tag)] = true
				n.Tag = nil
			}
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if name, ok := left.(*ast.Ident); ok && n.Tok == token.DEFINE {
					named(name)
				}
			}
		case *ast.RangeStmt:
			for _, left := range []ast.Expr{n.Key, n.Value} {
				if name, ok := left.(*ast.Ident); ok && n.Tok == token.DEFINE {
					named(name)
				}
			}
		}
		return true
	})
	n := 0
	for line := range bytes.Lines(text) {
		n++
		w := utf8.RuneCount(bytes.TrimRight(line, "\n")) + 3*bytes.Count(line, []byte("\t"))
		if w > columns && !data[n] {
			faults = append(faults, faultAt(n, "columns", "at most 120 columns; a tab counts as 4"))
		}
	}
	return faults
}

// parts splits a name at capitals: tellsAll has tells and all.
func parts(name string) (all []string) {
	from := 0
	for i, r := range name {
		if unicode.IsUpper(r) && i > from {
			all, from = append(all, strings.ToLower(name[from:i])), i
		}
	}
	return append(all, strings.ToLower(name[from:]))
}

func faultAt(line int, found, use string) string {
	return strconv.Itoa(line) + ": " + strconv.Quote(found) + ": write " + use
}
