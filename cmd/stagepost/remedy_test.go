package main

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// TestRemediesAreCommands: each remedy that why can give parses as a command of the program: those of events of every
// lifecycle, those of holds, and those that the code has as texts.
func TestRemediesAreCommands(t *testing.T) {
	var all []job.Remedy
	for _, life := range newCall(nil, io.Discard, io.Discard).Lives {
		for _, stage := range life.Stages() {
			for _, a := range stage.Transitions {
				if a.By&(lifecycle.Operator|lifecycle.Owner) != 0 {
					all = append(all, job.Causing(a.Event, "ing_X", true, a.Doc))
				}
			}
		}
	}
	events := len(all)
	all = append(all, job.Releasing(job.Scope{}),
		job.Releasing(job.Scope{Group: "old maps", Kind: "ingest.job", State: "Storing", Tag: "place=it's"}),
		job.Releasing(job.Scope{Job: "bat_X", Owner: "ann"}), job.Reordering("ing_X", 0, ""), job.Replaying("a/b c"))
	written := writtenRemedies(t)
	for _, text := range written {
		all = append(all, job.Remedy{Command: text})
	}
	if events < 20 || len(written) < 12 {
		t.Errorf("only %d events and %d texts were found", events, len(written))
	}
	seen := map[string]bool{}
	for _, r := range all {
		if seen[r.Command] {
			continue
		}
		seen[r.Command] = true
		if err := remedied(r); err != nil {
			t.Errorf("%s: %v", r.Command, err)
		}
	}
	for _, wrong := range []string{"stagepost see the moves", "stagepost retry", "stagepost release --groups maps",
		"release the hold"} {
		if remedied(job.Remedy{Command: wrong}) == nil {
			t.Errorf("control: %q parses", wrong)
		}
	}
}

// writtenRemedies collects the commands that job.Running is called with, or that are the Command of a job.Remedy. An
// expression in them counts as one word.
func writtenRemedies(t *testing.T) []string {
	t.Helper()
	var all []string
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.HasSuffix(path, "job/remedy.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Running" && len(n.Args) == 2 {
					all = append(all, "stagepost "+textOf(n.Args[0]))
				}
			case *ast.KeyValueExpr:
				if k, ok := n.Key.(*ast.Ident); ok && k.Name == "Command" &&
					strings.HasPrefix(textOf(n.Value), "stagepost ") {
					all = append(all, textOf(n.Value))
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// textOf gives a text as it is in the source, with X for what is computed.
func textOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return text
		}
	case *ast.BinaryExpr:
		return textOf(e.X) + textOf(e.Y)
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Sprintf" {
			return strings.NewReplacer("%s", "X", "%d", "1").Replace(textOf(e.Args[0]))
		}
	}
	return "X"
}

// remedied checks the command of a remedy against the tree of commands, and its operation against the routes.
func remedied(r job.Remedy) error {
	args, ok := strings.CutPrefix(r.Command, "stagepost ")
	if !ok {
		return errors.New("it is no command of stagepost")
	}
	if r.Path != "" {
		if err := operations([]string{r.Path}); err != nil {
			return err
		}
	}
	return parses(split(args), false)
}

// split takes a command line apart as a shell does, as far as [job.Quoted] quotes.
func split(line string) []string {
	var all []string
	word, quoted, begun := "", false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\'':
			quoted, begun = !quoted, true
		case c == '\\' && !quoted:
			i++
			word, begun = word+string(line[i]), true
		case c == ' ' && !quoted:
			if begun {
				all = append(all, word)
			}
			word, begun = "", false
		default:
			word, begun = word+string(c), true
		}
	}
	if begun {
		all = append(all, word)
	}
	return all
}
