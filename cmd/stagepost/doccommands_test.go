package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	orchestratorcli "github.com/stagepost/stagepost/app/compute/orchestrator/cli"
	"github.com/stagepost/stagepost/server"
)

// documented are the documents whose commands the tests check. Generated pages take their commands from the program.
func documented(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*/README.md", "contrib/*/*",
		"bench/README.md"} {
		files, err := filepath.Glob(filepath.Join("..", "..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, files...)
	}
	return slices.DeleteFunc(all, func(file string) bool {
		return slices.Contains([]string{"cli.md", "config.md", "api.md", "lifecycles.md"}, filepath.Base(file))
	})
}

// unchecked are programs that documents call and that this test cannot check, each with the reason.
var unchecked = map[string]string{
	"apt": "needs root", "apt-get": "needs root", "install": "needs root",
	"systemctl": "needs root", "sudo": "needs root",
	"cd": shell, "export": shell, "printf": shell, "umask": shell, "kill": shell,
	"cat": standardTool, "cp": standardTool, "cut": standardTool, "jq": standardTool, "ls": standardTool,
	"mkdir": standardTool,
	"rm":    standardTool, "sed": standardTool, "sha256sum": standardTool, "tail": standardTool, "unzip": standardTool,
	"wc": standardTool, "zip": standardTool, "git": "the address of the repository",
	"sqlite3": "the views have tests of their own", "docker": "TestDocker builds the images",
	"python3": "TestQuickStarts runs it", "promtool": "make check runs it", "tar": standardTool,
	"openssl": "the tests of format/rfc3161 run it", "bagit.py": "an independent program, not in this repository",
}

const (
	shell        = "of the shell"
	standardTool = "of every system"
)

// TestCommandsOfDocuments parses every command that a document shows, in a block or in a sentence, against the
// program: commands, flags and numbers of arguments. A block of commands is indented, or a fence without a language,
// or one of sh or console.
func TestCommandsOfDocuments(t *testing.T) {
	checked := 0
	for _, file := range documented(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(file) != ".md" {
			text = commentsOf(text)
		}
		for _, s := range shownCommands(string(text)) {
			checked++
			if err := s.check(); err != nil {
				t.Errorf("%s:%d: %s: %v", file, s.line, strings.Join(s.words, " "), err)
			}
		}
	}
	for _, cmd := range allCommands(newCall(nil, &bytes.Buffer{}, &bytes.Buffer{}).Root()) {
		for _, words := range simple(cmd.Example) {
			checked++
			if err := (shown{words: words}).check(); err != nil {
				t.Errorf("the example of %s: %s: %v", cmd.CommandPath(), strings.Join(words, " "), err)
			}
		}
	}
	if checked < 300 {
		t.Errorf("only %d commands were found", checked)
	}
}

// commentsOf gives the comments of a file of configuration, each in its line.
func commentsOf(text []byte) []byte {
	var b bytes.Buffer
	for line := range strings.Lines(string(text)) {
		comment, ok := strings.CutPrefix(line, "#")
		if !ok {
			comment = "\n"
		}
		b.WriteString(strings.TrimPrefix(comment, " "))
	}
	return b.Bytes()
}

// TestCommandsOfDocumentsSees is the control.
func TestCommandsOfDocumentsSees(t *testing.T) {
	for text, faults := range map[string]int{
		"    stagepost lits\n":                                         1,
		"    stagepost list --oder x\n":                                1,
		"    stagepost why\n":                                          1,
		"    (cd a && stagepost lits)\n":                               1,
		"    (cd a && stagepost list)\n":                               0,
		"    stagepost flow frobnicate\n":                              1,
		"```\nstagepost list\nls && stagepost lits | wc -l\n```\n":     1,
		"```sh\nA=b bin/stagepost list # stagepost lits\n```\n":        0,
		"```console\n$ stagepost lits\nstagepost lost\n```\n":          1,
		"```text\nstagepost lits\n```\n":                               0,
		"Then `stagepost lits` and `stagepost list --kind`.\n":         1,
		"Use `stagepost list --knid`, or `list --stat x`.\n":           2,
		"    make frobnicate\n    make check\n":                        1,
		"    go run ./examples/nothing\n    go run ./examples/embed\n": 1,
		"    frobnicate\n":                                             1,
		"    examples/none.sh\n    examples/compute/submit.sh\n":       1,
		"    curl http://127.0.0.1:7433/api/v1/lits\n":                 1,
		"    curl 'http://127.0.0.1:7433/api/v1/jobs/ing_1?x=y'\n":     0,
	} {
		n := 0
		for _, s := range shownCommands(text) {
			if s.check() != nil {
				n++
			}
		}
		if n != faults {
			t.Errorf("%q: %d faults, want %d", text, n, faults)
		}
	}
}

// shown is a command that a document shows. In a sentence it may lack arguments and values of flags.
type shown struct {
	line   int
	words  []string
	phrase bool
}

var (
	codeSpans = regexp.MustCompile("`([^`\n]+)`")
	bare      = regexp.MustCompile(`^[a-z]+( [a-z-]+)? --[a-z]`)
	assign    = regexp.MustCompile(`^[A-Z_]+=`)
)

// shownCommands finds the commands of a document.
func shownCommands(text string) (all []shown) {
	add := func(line int, block string) {
		for _, words := range simple(block) {
			all = append(all, shown{line: line, words: words})
		}
	}
	for _, b := range blocksOf(text) {
		switch {
		case b.code && b.commands():
			add(b.line, b.script())
		case !b.code:
			for _, m := range codeSpans.FindAllStringSubmatch(b.text, -1) {
				if one := strings.TrimPrefix(m[1], "$ "); strings.HasPrefix(one, "stagepost ") ||
					strings.HasPrefix(one, "bin/stagepost ") || bare.MatchString(one) {
					for _, words := range simple(one) {
						all = append(all, shown{b.line, words, true})
					}
				}
			}
		}
	}
	return all
}

// block is a paragraph of a document, or a block of code in it.
type block struct {
	line     int
	code     bool
	language string
	mark     string // of the comment <!-- MARK --> on the line before it
	text     string
}

func (b *block) commands() bool {
	return slices.Contains([]string{"", "sh", "console"}, b.language)
}

// session reports whether the block has commands behind a prompt, and what they print.
func (b *block) session() bool { return strings.HasPrefix(b.text, "$ ") }

// script gives the commands of the block.
func (b *block) script() string {
	if !b.session() {
		return b.text
	}
	var lines strings.Builder
	for line := range strings.Lines(b.text) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			lines.WriteString(command)
		}
	}
	return lines.String()
}

// blocksOf splits a document.
func blocksOf(text string) (all []block) {
	fenced, mark, last := false, "", ""
	for i, line := range strings.Split(text, "\n") {
		language, isFence := strings.CutPrefix(line, "```")
		indented := strings.HasPrefix(line, "    ")
		n := len(all) - 1
		switch {
		case isFence && !fenced:
			all, fenced = append(all, block{line: i + 1, code: true, language: language, mark: mark}), true
		case isFence:
			fenced = false
			all = append(all, block{line: i + 1})
		case fenced:
			all[n].text += line + "\n"
		case indented && (n >= 0 && all[n].code && all[n].language == "" && last != "" || last == "" || mark != ""):
			if n < 0 || !all[n].code || last == "" && !all[n].code || mark != "" {
				all = append(all, block{line: i + 1, code: true, mark: mark})
			}
			all[len(all)-1].text += strings.TrimPrefix(line, "    ") + "\n"
		default:
			if line != "" || n < 0 || !all[n].code {
				all = append(all, block{line: i + 1, text: line + "\n"})
			}
		}
		if !fenced && line != "" {
			mark, _ = strings.CutPrefix(line, "<!-- ")
			if mark = strings.TrimSuffix(mark, " -->"); mark == line {
				mark = ""
			}
		}
		last = line
	}
	return all
}

// simple splits shell text into simple commands, without comments, redirections and variables that are set for one
// command.
func simple(text string) (all [][]string) {
	var words []string
	var word strings.Builder
	in, has, skip, nested := rune(0), false, false, 0
	end := func() {
		if has {
			if one := word.String(); !skip && !(len(words) == 0 && assign.MatchString(one)) {
				words = append(words, one)
			}
			skip = false
		}
		word.Reset()
		has = false
	}
	finish := func() {
		end()
		if len(words) > 0 {
			all = append(all, words)
		}
		words, skip = nil, false
	}
	runes := []rune(text)
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; {
		case in == '#' && r != '\n', in == 0 && r == '#' && !has:
			in = '#'
		case in != 0 && in != '#' && r == in:
			in = 0
		case in != 0 && in != '#':
			word.WriteRune(r)
		case r == '\'' || r == '"':
			in, has = r, true
		case r == '\\' && i+1 < len(runes):
			if i++; runes[i] != '\n' {
				word.WriteRune(runes[i])
				has = true
			}
		case r == '\n' || r == '|' || r == ';' || r == '&':
			in = 0
			finish()
		case in == 0 && r == '(' && !has: // a subshell
			nested++
			finish()
		case in == 0 && r == ')' && nested > 0:
			nested--
			finish()
		case r == '>' || r == '<':
			end()
			skip = true
		case r == ' ' || r == '\t':
			end()
		default:
			word.WriteRune(r)
			has = true
		}
	}
	finish()
	return all
}

// check reports what is wrong with a command.
func (s shown) check() error {
	repository := func(name string) error {
		_, err := os.Stat(filepath.Join("..", "..", name))
		return err
	}
	name, args := s.words[0], s.words[1:]
	switch {
	case name == "xargs":
		return shown{words: append(args, "OF-A-PIPE")}.check()
	case name == "stagepost" || name == "bin/stagepost":
		return parses(args, s.phrase)
	case unchecked[name] != "":
		return nil
	case name == "make":
		return targets(args)
	case name == "go" && len(args) > 1 && (args[0] == "run" || args[0] == "test" || args[0] == "generate" ||
		args[0] == "install"):
		if strings.HasPrefix(args[1], "./") {
			return repository(args[1])
		}
		return nil
	case name == "curl":
		return operations(args)
	case name == orchestratorcli.Name:
		return nil // TestScript has its commands
	case strings.Contains(name, "/"):
		return repository(name)
	case s.phrase:
		return parses(s.words, true)
	}
	return fmt.Errorf("%s is neither the program nor in the list of others", name)
}

// targets reports the targets that the Makefile lacks.
func targets(args []string) error {
	makefile, err := os.ReadFile("../../Makefile")
	for _, one := range args {
		if !strings.Contains(string(makefile), "\n"+one+":") {
			return fmt.Errorf("the Makefile has no target %s (%w)", one, err)
		}
	}
	return err
}

// operations reports an address of an API that no route has.
func operations(args []string) error {
	for _, one := range args {
		_, path, ok := strings.Cut(one, "/api/v1/")
		if !ok {
			continue
		}
		path, _, _ = strings.Cut("/api/v1/"+path, "?")
		if !routePaths().MatchString(path) {
			return fmt.Errorf("no route has %s", path)
		}
	}
	return nil
}

// routePaths matches the paths of all routes.
var routePaths = sync.OnceValue(func() *regexp.Regexp {
	var all []string
	parameter := regexp.MustCompile(`\\\{[^}]*\\\}`)
	for pattern := range maps.Keys(server.Describe(newSettings().Routes()).Paths) {
		all = append(all, parameter.ReplaceAllString(regexp.QuoteMeta(pattern), "[^/]+"))
	}
	return regexp.MustCompile("^(?:" + strings.Join(all, "|") + ")$")
})

// newTree returns the commands of the program. Parsing changes the flags of a tree.
func newTree() *cobra.Command {
	root := newCall(nil, &bytes.Buffer{}, &bytes.Buffer{}).Root()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	root.InitDefaultVersionFlag()
	return root
}

// searchedTree is a tree in which commands are searched, and whose flags are not parsed.
var searchedTree = sync.OnceValue(newTree)

// parses reports what the program would refuse in the arguments. A phrase may lack values and arguments.
func parses(args []string, phrase bool) error {
	root := searchedTree()
	if !phrase {
		root = newTree()
	}
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	cmd.InheritedFlags() // merges them
	cmd.InitDefaultHelpFlag()
	if !phrase {
		if err := cmd.ParseFlags(rest); err != nil {
			return err
		}
		if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
			return err
		}
		if !cmd.Runnable() {
			return fmt.Errorf("%s needs a command below it", cmd.CommandPath())
		}
		return nil
	}
	return phrased(cmd, rest)
}

// phrased checks the flags that a phrase names, and its arguments if it has any.
func phrased(cmd *cobra.Command, rest []string) error {
	var values []string
	for i := 0; i < len(rest) && rest[i] != "--"; i++ {
		name, hasValue := rest[i], false
		switch {
		case strings.HasPrefix(name, "--"):
			name, _, hasValue = strings.Cut(name[2:], "=")
			flag := cmd.Flags().Lookup(name)
			if flag == nil {
				return fmt.Errorf("%s has no flag --%s", cmd.CommandPath(), name)
			}
			if !hasValue && flag.NoOptDefVal == "" && i+1 < len(rest) && !strings.HasPrefix(rest[i+1], "-") {
				i++
			}
		case strings.HasPrefix(name, "-") && len(name) == 2:
			flag := cmd.Flags().ShorthandLookup(name[1:])
			if flag == nil {
				return fmt.Errorf("%s has no flag %s", cmd.CommandPath(), name)
			}
			if flag.NoOptDefVal == "" {
				i++
			}
		default:
			values = append(values, name)
		}
	}
	if len(values) == 0 {
		return nil
	}
	if cmd.HasSubCommands() && !cmd.Runnable() {
		return fmt.Errorf("%s has no command %s", cmd.CommandPath(), values[0])
	}
	return cmd.ValidateArgs(values)
}

// allCommands lists a command and all below it.
func allCommands(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		all = append(all, allCommands(sub)...)
	}
	return all
}
