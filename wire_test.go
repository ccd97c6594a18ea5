package stagepost_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// alike lists pairs of types in different packages that have the same JSON fields, each with the reason.
var alike = map[string]string{
	"api.ComputeLimits app/compute.Limits": "records have nanoseconds, the API seconds or 1h30m",
	"api.ComputeLimits app/compute/serviceconfig.Limits": "files of services have quantities, and a schema with a " +
		"text for each field",
	"app/compute.Limits app/compute/serviceconfig.Limits": "records have nanoseconds, files of services quantities",
	"api.ComputeResults app/compute.Results":              "the sentence of the API also states what was left out",
	"api.FlowFailure flow.Failure":                        notFlow,
	"api.FlowForm flow.jsonForm":                          notFlow,
	"api.FlowLink flow.OutlinedLink":                      notFlow,
	"api.FlowOutline flow.Outline":                        notFlow,
}

const notFlow = "flow is a library without the API, and api does not import it: an outline passes as its JSON"

// TestWireTypesStandOnce refuses two struct types of different packages with the same JSON fields, four or more.
func TestWireTypesStandOnce(t *testing.T) {
	structs := map[string]*shape{}
	for file := range sources(t) {
		if !strings.HasSuffix(file, "_test.go") {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			addStructs(structs, filepath.ToSlash(filepath.Dir(file)), f)
		}
	}
	used := map[string]bool{}
	for _, pair := range twins(structs) {
		if used[pair] = true; alike[pair] == "" {
			t.Errorf("%s have the same JSON fields: declare the type once, in api or in job", pair)
		}
	}
	for pair := range alike {
		if !used[pair] {
			t.Errorf("%s no longer have the same JSON fields: remove the exception", pair)
		}
	}
	if len(structs) < 500 {
		t.Errorf("only %d structs were found", len(structs))
	}
}

// TestTwinsAreFound is the control: fields of embedded types count; three fields, or embedded ones alone, are no twin.
func TestTwinsAreFound(t *testing.T) {
	structs := map[string]*shape{}
	for dir, text := range map[string]string{
		"a": "type Part struct { X, Y int `json:\"-\"`; One int `json:\"one\"`; Two int `json:\"two,omitempty\"` }\n" +
			"type Whole struct { Part; Three int `json:\"three\"`; Four int `json:\"four\"` }",
		"b": "type Same struct { D int `json:\"four\"`; C int `json:\"three\"`; B int `json:\"two\"`; A int " +
			"`json:\"one\"` }\n" +
			"type Fewer struct { C int `json:\"three\"`; B int `json:\"two\"`; A int `json:\"one\"` }",
		"c": "import \"" + module + "/a\"\ntype Outer struct { a.Part; Three int `json:\"three\"` }\n" +
			"type Page struct { a.Whole; Title string }",
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", "package "+dir+"\n"+text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		addStructs(structs, dir, f)
	}
	if got := twins(structs); !slices.Equal(got, []string{"a.Whole b.Same"}) {
		t.Errorf("got %q", got)
	}
}

// shape is what a struct type contributes to its JSON: its own fields, and the types that it embeds.
type shape struct{ fields, embeds []string }

// addStructs adds the named struct types of a file by "folder.Name".
func addStructs(structs map[string]*shape, dir string, f *ast.File) {
	imports := map[string]string{}
	for _, i := range f.Imports {
		if p, err := strconv.Unquote(i.Path.Value); err == nil {
			name := path.Base(p)
			if i.Name != nil {
				name = i.Name.Name
			}
			imports[name] = strings.TrimPrefix(p, module+"/")
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if st, ok := spec.Type.(*ast.StructType); ok {
			s := &shape{}
			for _, field := range st.Fields.List {
				s.add(field, dir, imports)
			}
			structs[dir+"."+spec.Name.Name] = s
		}
		return false
	})
}

func (s *shape) add(field *ast.Field, dir string, imports map[string]string) {
	if field.Tag != nil {
		tag := reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("json")
		if name, _, _ := strings.Cut(tag, ","); name != "" && name != "-" {
			s.fields = append(s.fields, name)
		}
		return
	}
	if len(field.Names) > 0 {
		return
	}
	of := field.Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	switch of := of.(type) {
	case *ast.Ident:
		s.embeds = append(s.embeds, dir+"."+of.Name)
	case *ast.SelectorExpr:
		s.embeds = append(s.embeds, imports[of.X.(*ast.Ident).Name]+"."+of.Sel.Name)
	}
}

// twins lists the pairs of types of different folders that have the same set of four or more JSON fields.
func twins(structs map[string]*shape) (pairs []string) {
	byFields := map[string][]string{}
	for name, s := range structs {
		if len(s.fields) == 0 {
			continue // what it embeds is the type
		}
		fields := fieldsOf(structs, name)
		slices.Sort(fields)
		if fields = slices.Compact(fields); len(fields) >= 4 {
			key := strings.Join(fields, " ")
			byFields[key] = append(byFields[key], name)
		}
	}
	for _, names := range byFields {
		slices.Sort(names)
		for i, one := range names {
			for _, other := range names[i+1:] {
				if one[:strings.LastIndex(one, ".")] != other[:strings.LastIndex(other, ".")] {
					pairs = append(pairs, one+" "+other)
				}
			}
		}
	}
	slices.Sort(pairs)
	return pairs
}

func fieldsOf(structs map[string]*shape, name string) []string {
	s := structs[name]
	if s == nil {
		return nil
	}
	fields := slices.Clone(s.fields)
	for _, e := range s.embeds {
		fields = append(fields, fieldsOf(structs, e)...)
	}
	return fields
}
