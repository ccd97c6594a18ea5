package openapi

import (
	"embed"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"reflect"
	"strings"
	"sync"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
)

// comments returns the comments of packages api and job: of types by the name of their schema, of fields by
// "Schema.json_name".
var comments = sync.OnceValue(func() map[string]string {
	texts := map[string]string{}
	structs := map[string]*ast.StructType{}
	for pkg, source := range map[string]embed.FS{"api": api.Source, "job": job.Source} {
		for name, spec := range declared(source) {
			texts[schemaOf(pkg, name)] = sentence(spec.Doc)
			if st, ok := spec.Type.(*ast.StructType); ok {
				structs[pkg+"."+name] = st
			}
		}
	}
	for name := range structs {
		pkg, short, _ := strings.Cut(name, ".")
		fields(texts, structs, schemaOf(pkg, short), name)
	}
	return texts
})

// declared returns the types of a package by their name, each with the comment of its declaration.
func declared(source embed.FS) map[string]*ast.TypeSpec {
	all := map[string]*ast.TypeSpec{}
	names, err := fs.Glob(source, "*.go")
	if err != nil {
		panic(err) // the pattern is wrong
	}
	for _, name := range names {
		text, err := fs.ReadFile(source, name)
		if err != nil {
			panic(err) // it is embedded
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
		if err != nil {
			panic(err) // it was compiled
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				s := g.Specs[0].(*ast.TypeSpec)
				s.Doc = g.Doc
				all[s.Name.Name] = s
			}
		}
	}
	return all
}

// fields adds the comments of the fields of a struct to those of a schema, embedded structs included.
func fields(texts map[string]string, structs map[string]*ast.StructType, schema, name string) {
	if structs[name] == nil {
		return
	}
	pkg, _, _ := strings.Cut(name, ".")
	for _, f := range structs[name].Fields.List {
		switch of := f.Type.(type) {
		case *ast.Ident:
			if len(f.Names) == 0 {
				fields(texts, structs, schema, pkg+"."+of.Name)
			}
		case *ast.SelectorExpr:
			if x, ok := of.X.(*ast.Ident); ok && len(f.Names) == 0 {
				fields(texts, structs, schema, x.Name+"."+of.Sel.Name)
			}
		}
		if f.Tag == nil {
			continue
		}
		json := reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json")
		json, _, _ = strings.Cut(json, ",")
		text := sentence(f.Comment)
		if text == "" {
			text = sentence(f.Doc)
		}
		if text != "" {
			texts[schema+"."+json] = text
		}
	}
}

// sentence returns a comment on one line.
func sentence(c *ast.CommentGroup) string {
	if c == nil {
		return ""
	}
	return strings.Join(strings.Fields(c.Text()), " ")
}
