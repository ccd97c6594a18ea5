package openapi

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// Outline is a description as people read it.
type Outline struct {
	About  string
	Groups []Group
	Types  []Type
}

// Group is the operations that concern the same thing.
type Group struct {
	Name string
	Rows []Row
}

// Row is an operation.
type Row struct {
	Method, Path, Doc, Role string
	Parameters              []Field
	Body                    string   // what it reads
	Answers                 []string // "200 Page"
}

// Type is a schema with its fields.
type Type struct {
	Name, Doc string
	Fields    []Field
}

// Field is a field of a schema, or a parameter.
type Field struct {
	Name, Type, Doc string
	Required        bool
}

// OutlineOf returns the outline of a description.
func OutlineOf(d *huma.OpenAPI) *Outline {
	o := &Outline{About: d.Info.Description}
	groups := map[string]*Group{}
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		item := d.Paths[path]
		for _, h := range []*huma.Operation{item.Get, item.Put, item.Post, item.Patch, item.Delete, item.Options} {
			if h == nil {
				continue
			}
			g := groups[h.Tags[0]]
			if g == nil {
				g = &Group{Name: h.Tags[0]}
				groups[g.Name] = g
			}
			g.Rows = append(g.Rows, row(path, h))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		o.Groups = append(o.Groups, *groups[name])
	}
	schemas := d.Components.Schemas.Map()
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		s := schemas[name]
		t := Type{Name: name, Doc: s.Description}
		for _, property := range slices.Sorted(maps.Keys(s.Properties)) {
			p := s.Properties[property]
			t.Fields = append(t.Fields, Field{Name: property, Type: typeOf(p), Doc: p.Description,
				Required: slices.Contains(s.Required, property)})
		}
		o.Types = append(o.Types, t)
	}
	return o
}

// row returns the row of an operation.
func row(path string, h *huma.Operation) Row {
	r := Row{Method: h.Method, Path: path, Doc: h.Summary,
		Role: strings.TrimSuffix(strings.TrimPrefix(h.Description, "For: "), ".")}
	for _, p := range h.Parameters {
		if p.In != "path" {
			r.Parameters = append(r.Parameters, Field{Name: p.Name, Type: typeOf(p.Schema), Doc: p.Description,
				Required: p.Required})
		}
	}
	if h.RequestBody != nil {
		r.Body = forms(h.RequestBody.Content)
	}
	for _, status := range slices.Sorted(maps.Keys(h.Responses)) {
		if status != "default" {
			r.Answers = append(r.Answers, strings.TrimSpace(status+" "+forms(h.Responses[status].Content)))
		}
	}
	return r
}

// forms names the forms of a body: JSON by its type, others by their media type.
func forms(of map[string]*huma.MediaType) string {
	var all []string
	for _, media := range slices.Sorted(maps.Keys(of)) {
		if media == "application/json" {
			media = typeOf(of[media].Schema)
		}
		all = append(all, media)
	}
	return strings.Join(all, ", ")
}

// typeOf names the type of a schema.
func typeOf(s *huma.Schema) string {
	switch {
	case s.Ref != "":
		return s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]
	case s.Type == "array":
		return "list of " + typeOf(s.Items)
	case len(s.AnyOf) > 0:
		var all []string
		for _, one := range s.AnyOf {
			all = append(all, typeOf(one))
		}
		return strings.Join(all, " or ")
	}
	if more, ok := s.AdditionalProperties.(*huma.Schema); ok {
		return "map of " + typeOf(more)
	}
	if s.Format == "date-time" {
		return "time"
	}
	return cmp.Or(s.Type, "any")
}

// Markdown writes the outline for docs/api.md.
func (o *Outline) Markdown() string {
	var b strings.Builder
	for _, g := range o.Groups {
		fmt.Fprintf(&b, "\n## %s\n\n| method | path | for | what it does | body | answer |\n", g.Name)
		b.WriteString("|---|---|---|---|---|---|\n")
		for _, r := range g.Rows {
			fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s | %s |\n", r.Method, r.Path, r.Role, cell(r.Doc), r.Body,
				strings.Join(r.Answers, "; "))
		}
		for _, r := range g.Rows {
			if len(r.Parameters) == 0 {
				continue
			}
			fmt.Fprintf(&b, "\n`%s %s`:\n\n| parameter | type | meaning |\n|---|---|---|\n", r.Method, r.Path)
			for _, p := range r.Parameters {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", p.Name, p.Type, cell(p.Doc))
			}
		}
	}
	b.WriteString("\n## Types\n")
	for _, t := range o.Types {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n| field | type | meaning |\n|---|---|---|\n", t.Name, t.Doc)
		for _, f := range t.Fields {
			doc := f.Doc
			if f.Required {
				doc = strings.TrimSpace("Required. " + doc)
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Name, f.Type, cell(doc))
		}
	}
	return b.String()
}

// cell keeps a text from breaking a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }
