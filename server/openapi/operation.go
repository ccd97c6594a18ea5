// Package openapi describes the operations of a server in OpenAPI 3.1, for programs (JSON), people (a page) and the
// documentation (Markdown). Schemas are made from the Go types of bodies. Their texts are the comments of package api.
package openapi

import (
	"net/http"
	"slices"
	"strings"
)

// IO declares what an operation reads and answers.
type IO struct {
	In    any            // a value of the type of its JSON body; nil: none
	Takes []string       // media types of a body other than JSON
	Parts map[string]any // the parts of a form, JSON by the type of a value; nil: other bytes
	Query []Parameter    // parameters of the query

	Out    any         // a value of the type of its JSON answer; nil: none
	Media  []string    // media types of an answer other than JSON
	Status int         // of a success; defaults to 200
	Also   map[int]any // other statuses with the types of their JSON answers; []any: one of them; nil: as Out and Media
	Faults []string    // media types of refusals, besides that of problems
	Events []Event     // that it streams (server-sent events)
	// it is carried out once for an Idempotency-Key, although it creates no job: the server keeps its answer
	Once  bool
	Keyed bool // it makes a job under an Idempotency-Key, although its body has no field for the key
}

// Parameter is a parameter of an operation.
type Parameter struct {
	Name    string
	Doc     string // one sentence
	Type    string // integer, number, boolean or string; defaults to string
	Format  string // such as date-time
	Many    bool   // it may be repeated
	Unit    string // of a number: bytes, seconds, items
	Default string
	Values  []string // that are allowed; empty: all
}

// Event is a kind of message of a stream.
type Event struct {
	Name string
	Data any // a value of the type of its data
	Doc  string
}

// Operation is a method of a path.
type Operation struct {
	Method string
	Path   string // pattern of net/http.ServeMux
	Doc    string // one sentence
	Role   string // who may use it
	IO
}

// ID returns the name of an operation: its method and path, such as getJobsIdWhy.
func (o *Operation) ID() string {
	id := strings.ToLower(o.Method)
	words := strings.FieldsFunc(strings.TrimPrefix(o.path(), "/api/v1"), func(r rune) bool {
		return strings.ContainsRune("/{}-._", r)
	})
	if len(words) == 0 {
		words = []string{"index"}
	}
	for _, word := range words {
		id += strings.ToUpper(word[:1]) + word[1:]
	}
	if slices.Contains(o.Media, "text/html") && !strings.HasPrefix(o.Path, "/api/") {
		id += "Page"
	}
	return id
}

// path returns the path as OpenAPI writes it.
func (o *Operation) path() string {
	return strings.NewReplacer("{$}", "", "...}", "}").Replace(o.Path)
}

// tag returns the name of the group of operations to which it belongs.
func (o *Operation) tag() string {
	rest, ok := strings.CutPrefix(o.path(), "/api/v1/")
	if !ok {
		if strings.Contains(o.Path, "/v1/") {
			return "ga4gh"
		}
		return "server"
	}
	name, _, _ := strings.Cut(rest, "/")
	return strings.TrimSuffix(name, ".json")
}

// status returns the status of a success.
func (o *Operation) status() int {
	if o.Status == 0 {
		return http.StatusOK
	}
	return o.Status
}

// inPath lists the names of the parameters of the path.
func (o *Operation) inPath() (names []string) {
	for part := range strings.SplitSeq(o.path(), "{") {
		if name, _, ok := strings.Cut(part, "}"); ok {
			names = append(names, name)
		}
	}
	return names
}
