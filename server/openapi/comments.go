package openapi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"reflect"
	"strings"
	"sync"

	"github.com/stagepost/stagepost/api"
)

// comments returns the comments of package api: of types by their name, of fields by "Type.json_name".
var comments = sync.OnceValue(func() map[string]string {
	texts := map[string]string{}
	structs := map[string]*ast.StructType{}
	names, err := fs.Glob(api.Source, "*.go")
	if err != nil {
		panic(err) // the pattern is wrong
	}
	for _, name := range names {
		text, err := fs.ReadFile(api.Source, name)
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
				texts[s.Name.Name] = sentence(g.Doc)
				if st, ok := s.Type.(*ast.StructType); ok {
					structs[s.Name.Name] = st
				}
			}
		}
	}
	for name, st := range structs {
		fields(texts, structs, name, st)
	}
	return texts
})

// fields adds the comments of the fields of a struct, embedded ones included.
func fields(texts map[string]string, structs map[string]*ast.StructType, name string, st *ast.StructType) {
	for _, f := range st.Fields.List {
		if len(f.Names) == 0 {
			if id, ok := f.Type.(*ast.Ident); ok && structs[id.Name] != nil {
				fields(texts, structs, name, structs[id.Name])
			}
			continue
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
			texts[name+"."+json] = text
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
