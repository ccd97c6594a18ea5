package openapi

import (
	"fmt"
	"maps"
	"net/http"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

const about = `All paths of the API begin with /api/v1. Bodies and answers are JSON unless an operation has other media
types. Every answer that is not a success is a Problem (application/problem+json, RFC 9457) with a kind.
A browser (Accept names text/html, and there is no Authorization) gets a page instead, except below /api.
Fields that are not in a schema are refused in bodies, and texts that are not UTF-8 or have half of a surrogate pair as
an escape. Times are RFC 3339 in UTC. Lists answer with a cursor in next,
which the next request passes as after. A page, and a claim of jobs, may have fewer entries than its limit although
there are more: it ends with the job with which specs and data have about 8 MiB. The spec of an order of POST
/api/v1/jobs, and the data of a job that a worker reports, have at most 1 MiB. Filters: all that are given must match. A filter that is an array may be
repeated, or have several values with commas between them; each other one is given once. A filter that does not exist,
and a value that is not possible, are refused with the names or values that are. An operation for a role with
"(content)" or "(deletion)" is, of operators and auditors, for the owner of the work only; admins may use all. So is the
event delete.`

// Describe returns the description of operations.
func Describe(operations []Operation) *huma.OpenAPI {
	registry := huma.NewMapRegistry("#/components/schemas/", schemaName)
	for t, as := range written {
		registry.RegisterTypeAlias(t, as)
	}
	d := &huma.OpenAPI{
		OpenAPI: "3.1.0", Info: &huma.Info{Title: "Stagepost", Version: "1", Description: about,
			Contact: &huma.Contact{Name: "Stagepost", URL: "https://github.com/stagepost/stagepost"},
			License: &huma.License{Name: "Apache License 2.0", Identifier: "Apache-2.0"}},
		Servers: []*huma.Server{{URL: "/", Description: "The server that gave the description."}},
		Components: &huma.Components{Schemas: registry, SecuritySchemes: map[string]*huma.SecurityScheme{
			"token": {Type: "http", Scheme: "bearer",
				Description: "A token of stagepost admin token new. Servers without tokens need none."},
		}},
	}
	ids, tags := map[string]string{}, map[string]bool{}
	for i := range operations {
		o := &operations[i]
		path := o.Method + " " + o.path()
		if before := ids[o.ID()]; before != "" && before != path { // generators name functions by it
			panic(fmt.Sprintf("openapi: %s and %s have the same id %s", before, path, o.ID()))
		}
		ids[o.ID()], tags[o.tag()] = path, true
		d.AddOperation(operation(registry, o))
	}
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		d.Tags = append(d.Tags, &huma.Tag{Name: name, Description: tagTexts[name]})
	}
	texts := comments()
	for name, s := range registry.Map() {
		s.Description = texts[name]
		for property, p := range s.Properties {
			if text := texts[name+"."+property]; text != "" {
				p.Description = text
			}
		}
		arraysAreNotNull(s)
	}
	return d
}

// operation describes one.
func operation(r huma.Registry, o *Operation) *huma.Operation {
	h := &huma.Operation{
		Method: o.Method, Path: o.path(), OperationID: o.ID(), Tags: []string{o.tag()}, Summary: o.Doc,
		Description: "For: " + o.Role + ".", Responses: map[string]*huma.Response{},
	}
	h.Security = []map[string][]string{} // not nil, so that it is stated for anyone too
	if o.Role != "anyone" {
		h.Security = append(h.Security, map[string][]string{"token": {}})
	}
	for _, name := range o.inPath() {
		h.Parameters = append(h.Parameters, &huma.Param{Name: name, In: "path", Required: true,
			Description: pathTexts[name], Schema: &huma.Schema{Type: "string"}})
	}
	for _, p := range o.Query {
		h.Parameters = append(h.Parameters, p.param("query"))
	}
	for _, p := range o.headers() {
		h.Parameters = append(h.Parameters, p.param("header"))
	}
	if o.In != nil || len(o.Takes) > 0 || len(o.Parts) > 0 {
		h.RequestBody = &huma.RequestBody{Content: content(r, o.In, o.Takes)}
	}
	if len(o.Parts) > 0 {
		h.RequestBody.Content["multipart/form-data"] = form(r, o.Parts)
	}
	statuses := map[int]any{o.status(): nil}
	maps.Copy(statuses, o.Also)
	for status, of := range statuses {
		media := []string(nil)
		if of == nil {
			of, media = o.Out, o.Media
		}
		answer := &huma.Response{Description: http.StatusText(status)}
		if status != http.StatusNoContent && status != http.StatusSwitchingProtocols {
			answer.Content = content(r, of, media)
		}
		switch status {
		case o.status():
			answer.Headers = o.sends()
		case http.StatusOK: // to a request that was sent again, or to another question, which has none of them
			answer.Headers = o.sends()
			for _, h := range answer.Headers {
				h.Required = false
			}
		}
		h.Responses[strconv.Itoa(status)] = answer
	}
	h.Responses["default"] = &huma.Response{Description: "What went wrong.", Content: map[string]*huma.MediaType{
		"application/problem+json": {Schema: r.Schema(reflect.TypeFor[api.Problem](), true, ""),
			Example: problemExample},
	}}
	maps.Copy(h.Responses["default"].Content, content(r, nil, o.Faults))
	if len(o.Events) > 0 {
		h.Responses["200"].Content["text/event-stream"] = events(r, o.Events)
	}
	return h
}

// content returns the forms of a body: JSON of a type, and other media types.
func content(r huma.Registry, of any, media []string) map[string]*huma.MediaType {
	all := map[string]*huma.MediaType{}
	if several, ok := of.([]any); ok {
		var schemas []*huma.Schema
		for _, one := range several {
			schemas = append(schemas, r.Schema(reflect.TypeOf(one), true, ""))
		}
		all["application/json"] = &huma.MediaType{Schema: either(schemas...)}
	} else if of != nil {
		all["application/json"] = &huma.MediaType{Schema: r.Schema(reflect.TypeOf(of), true, "")}
	}
	for _, m := range media {
		all[m] = &huma.MediaType{Schema: &huma.Schema{Type: "string"}}
	}
	return all
}

// form describes a body of several parts.
func form(r huma.Registry, parts map[string]any) *huma.MediaType {
	s := &huma.Schema{Type: "object", Properties: map[string]*huma.Schema{}}
	for name, of := range parts {
		s.Properties[name] = &huma.Schema{Type: "string", Format: "binary"}
		if of != nil {
			s.Properties[name] = r.Schema(reflect.TypeOf(of), true, "")
		}
	}
	return &huma.MediaType{Schema: s}
}

// events describes a stream. OpenAPI 3.1 has no word for its messages: the extension x-events names the schema of each.
func events(r huma.Registry, all []Event) *huma.MediaType {
	named := map[string]any{}
	for _, e := range all {
		one := map[string]any{"description": e.Doc}
		if e.Data != nil {
			one["schema"] = r.Schema(reflect.TypeOf(e.Data), true, "")
		}
		named[e.Name] = one
	}
	return &huma.MediaType{Schema: &huma.Schema{Type: "string"}, Extensions: map[string]any{"x-events": named}}
}

// param describes a parameter.
func (p *Parameter) param(in string) *huma.Param {
	s := &huma.Schema{Type: p.Type, Format: p.Format}
	if s.Type == "" {
		s.Type = "string"
	}
	for _, v := range p.Values {
		s.Enum = append(s.Enum, v)
	}
	if p.Default != "" {
		s.Default = p.Default
		if n, err := strconv.ParseInt(p.Default, 10, 64); err == nil && s.Type == "integer" {
			s.Default = n
		}
	}
	text := p.Doc
	if p.Unit != "" {
		text = strings.TrimSuffix(text, ".") + ", in " + p.Unit + "."
	}
	h := &huma.Param{Name: p.Name, In: in, Description: text, Schema: s}
	if p.Many {
		explode := true
		h.Schema, h.Explode = &huma.Schema{Type: "array", Items: s}, &explode
	}
	return h
}

// pathTexts describe the parameters of paths.
var pathTexts = map[string]string{
	"id": "Id of the job; of profiles, the profile.", "event": "Event of the job's lifecycle.",
	"name": "Name of the object; of drawings, with the ending of the format.", "token": "Token of the request.",
	"path": "Path of the file.", "key": "Key of the message.", "upload": "Id of the upload.", "task": "Id of the task.",
}

// tagTexts describe the groups of operations whose names do not describe them. An application's group needs none.
var tagTexts = map[string]string{
	"ga4gh":  "Services of other standards: those of GA4GH.",
	"server": "Pages for browsers, health, metrics, and addresses outside of /api/v1.",
}

// problemExample is an example of the body of a refusal.
var problemExample = api.Problem{Type: "urn:stagepost:problem:not-found",
	Title: "It does not exist.", Status: http.StatusNotFound, Detail: "there is no such job", Kind: job.NotFound,
	Op: "get", Job: "job_01J9ZK6Q2V8R4M5T7W9X0Y1A3B"}

// component is a name that OpenAPI allows in components.
var component = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// schemaName names the schema of a type. It panics for a type without a name: generators stop at such a schema.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name = schemaOf(path.Base(t.PkgPath()), name)
	if t.Kind() == reflect.Struct && !component.MatchString(name) {
		panic(fmt.Sprintf("openapi: %q is no name of a schema: give the type %s a name", name, t))
	}
	return name
}

// schemaOf names the schema of a type: types of package api as they are, others with their package before them.
func schemaOf(pkg, name string) string {
	switch {
	case pkg == "job" && name == "Job":
		return "Record"
	case pkg == "." || pkg == "api":
		return name
	}
	return strings.ToUpper(pkg[:1]) + pkg[1:] + name
}

// written maps types that write their JSON themselves to types that describe it.
var written = map[reflect.Type]reflect.Type{
	reflect.TypeFor[lifecycle.Actor]():    reflect.TypeFor[[]string](),
	reflect.TypeFor[api.Seconds]():        reflect.TypeFor[seconds](),
	reflect.TypeFor[api.Bytes]():          reflect.TypeFor[size](),
	reflect.TypeFor[api.ComputeCommand](): reflect.TypeFor[command](),
	reflect.TypeFor[api.FlowSignals]():    reflect.TypeFor[signals](),
}

type (
	seconds struct{}
	size    struct{}
	command struct{}
	signals struct{}
)

// Schema is part of huma.SchemaProvider.
func (seconds) Schema(huma.Registry) *huma.Schema {
	return either(&huma.Schema{Type: "number"}, &huma.Schema{Type: "string", Examples: []any{"1d12h"}})
}

// Schema is part of huma.SchemaProvider.
func (size) Schema(huma.Registry) *huma.Schema {
	return either(&huma.Schema{Type: "integer"}, &huma.Schema{Type: "string", Examples: []any{"512MiB"}})
}

// Schema is part of huma.SchemaProvider.
func (command) Schema(huma.Registry) *huma.Schema {
	return either(&huma.Schema{Type: "string"}, &huma.Schema{Type: "array", Items: &huma.Schema{Type: "string"}})
}

// Schema is part of huma.SchemaProvider.
func (signals) Schema(r huma.Registry) *huma.Schema {
	form := r.Schema(reflect.TypeFor[api.FlowForm](), true, "")
	return &huma.Schema{Type: "object", AdditionalProperties: either(form, &huma.Schema{Type: "null"})}
}

func either(all ...*huma.Schema) *huma.Schema { return &huma.Schema{AnyOf: all} }

// arraysAreNotNull states what the server guarantees: an empty list is written as one.
func arraysAreNotNull(s *huma.Schema) {
	if s == nil {
		return
	}
	if s.Type == "array" {
		s.Nullable = false
	}
	arraysAreNotNull(s.Items)
	for p := range maps.Values(s.Properties) {
		arraysAreNotNull(p)
	}
	if more, ok := s.AdditionalProperties.(*huma.Schema); ok {
		arraysAreNotNull(more)
	}
	for _, one := range slices.Concat(s.AnyOf, s.OneOf) {
		arraysAreNotNull(one)
	}
}
