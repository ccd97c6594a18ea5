package servertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stagepost/stagepost/server"
)

// Contract checks answers against the description of routes.
type Contract struct {
	doc *huma.OpenAPI
	mux *http.ServeMux

	mu       sync.Mutex // guards the rest
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema
}

const described = "file:///openapi.json"

var contracts sync.Map // by patterns: most tests have the same

// ContractOf returns the contract of routes. It panics if the description is no valid document.
func ContractOf(routes []server.Route) *Contract {
	key := ""
	for i := range routes {
		key += routes[i].Method + routes[i].Pattern + fmt.Sprintf("%v\n", routes[i].IO)
	}
	if c, ok := contracts.Load(key); ok {
		return c.(*Contract)
	}
	c := &Contract{doc: server.Describe(routes), mux: http.NewServeMux(), compiler: jsonschema.NewCompiler(),
		schemas: map[string]*jsonschema.Schema{}}
	for i := range routes {
		c.mux.Handle(routes[i].Method+" "+routes[i].Pattern, http.NotFoundHandler())
	}
	text, err := json.Marshal(c.doc)
	if err != nil {
		panic(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		panic(err)
	}
	if err := c.compiler.AddResource(described, doc); err != nil {
		panic(err)
	}
	contracts.Store(key, c)
	return c
}

// Check returns an error if an answer is not one that the description has for the request: its status, its media type,
// its body. Requests without an operation are not checked.
func (c *Contract) Check(r *http.Request, answer *http.Response, text []byte) error {
	_, pattern := c.mux.Handler(r)
	method, path, _ := strings.Cut(pattern, " ")
	if pattern == "" {
		return nil
	}
	path = strings.NewReplacer("{$}", "", "...}", "}").Replace(path)
	if err := c.compare(method, path, r.Method == http.MethodHead, answer, text); err != nil {
		return fmt.Errorf("%s %s: %s: %w", r.Method, r.URL.Path, answer.Status, err)
	}
	return nil
}

func (c *Contract) compare(method, path string, head bool, answer *http.Response, text []byte) error {
	item := c.doc.Paths[path]
	h := map[string]*huma.Operation{http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPut: item.Put,
		http.MethodPatch: item.Patch, http.MethodDelete: item.Delete, http.MethodOptions: item.Options}[method]
	status := strconv.Itoa(answer.StatusCode)
	form, ok := h.Responses[status]
	switch {
	case answer.StatusCode == http.StatusNotModified, answer.StatusCode == http.StatusRequestHeaderFieldsTooLarge:
		return nil // net/http answers
	case !ok && answer.StatusCode == http.StatusSeeOther &&
		strings.HasPrefix(answer.Header.Get("Location"), server.SignInPath+"?"):
		return nil // every route answers so to a browser without an identity, where there is a page to sign in
	case !ok && answer.StatusCode >= 400:
		status, form = "default", h.Responses["default"]
	case !ok:
		return fmt.Errorf("the description has no such status")
	}
	for name, h := range form.Headers {
		if h.Required && answer.Header.Get(name) == "" {
			return fmt.Errorf("the answer has no header %s", name)
		}
	}
	if head || len(text) == 0 && len(form.Content) == 0 {
		return nil
	}
	media, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("the media type: %w", err)
	}
	of := form.Content[media]
	switch {
	case of == nil && form.Content["*/*"] != nil:
		return nil
	case of == nil:
		return fmt.Errorf("the description has no %s for %s", media, status)
	case !strings.HasSuffix(media, "json") || of.Schema.Ref == "":
		return nil
	}
	return c.valid(of.Schema.Ref, text)
}

// CheckMessage returns an error if a message of a stream is not one that the description has for the request: its
// event, its data. Requests without an operation are not checked.
func (c *Contract) CheckMessage(r *http.Request, name string, data []byte) error {
	_, pattern := c.mux.Handler(r)
	_, path, _ := strings.Cut(pattern, " ")
	if pattern == "" {
		return nil
	}
	stream := c.doc.Paths[strings.ReplaceAll(path, "...}", "}")].Get.Responses["200"].Content["text/event-stream"]
	if stream == nil {
		return fmt.Errorf("%s: the description has no stream", pattern)
	}
	event, ok := stream.Extensions["x-events"].(map[string]any)[name].(map[string]any)
	if !ok {
		return fmt.Errorf("%s: the description has no event %q: %.200s", pattern, name, data)
	}
	schema, ok := event["schema"].(*huma.Schema)
	if !ok {
		return nil // the message has no data
	}
	if err := c.valid(schema.Ref, data); err != nil {
		return fmt.Errorf("%s: event %s: %w", pattern, name, err)
	}
	return nil
}

// messages checks each message of a stream when its last line was read.
type messages struct {
	io.ReadCloser
	check func(name string, data []byte)
	text  []byte // that no message had yet
}

// Read is part of io.Reader.
func (m *messages) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	m.text = append(m.text, p[:n]...)
	for {
		one, rest, whole := bytes.Cut(m.text, []byte("\n\n"))
		if !whole {
			return n, err
		}
		m.text = rest
		name, data := "", []byte(nil)
		for line := range bytes.Lines(one) {
			if text, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
				name = string(bytes.TrimSpace(text))
			}
			if text, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				data = append(data, text...)
			}
		}
		if name != "" { // else a sign of life
			m.check(name, data)
		}
	}
}

// valid checks a text against a schema.
func (c *Contract) valid(ref string, text []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.schemas[ref]
	if s == nil {
		var err error
		if s, err = c.compiler.Compile(described + ref); err != nil {
			return err
		}
		c.schemas[ref] = s
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	if err := s.Validate(v); err != nil {
		return fmt.Errorf("%w\nin %.2000s", err, text)
	}
	return nil
}

var jsonTypes = []string{"application/json", "application/problem+json"}

// checked is a transport that checks each answer in JSON.
type checked struct {
	http.RoundTripper
	harness *Harness
}

// RoundTrip is part of http.RoundTripper.
func (c checked) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.RoundTripper.RoundTrip(r)
	if err == nil && answer.Header.Get("Content-Type") == "text/event-stream" {
		answer.Body = &messages{ReadCloser: answer.Body, check: func(name string, data []byte) {
			if err := c.harness.contract().CheckMessage(r, name, data); err != nil {
				c.harness.T.Error(err)
			}
		}}
		return answer, nil
	}
	if err != nil || !slices.Contains(jsonTypes, answer.Header.Get("Content-Type")) {
		return answer, err
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	if err := c.harness.contract().Check(r, answer, text); err != nil {
		c.harness.T.Error(err)
	}
	answer.Body = read{bytes.NewReader(text), answer.Body}
	return answer, nil
}

// read is a body that was read: it is given again.
type read struct {
	io.Reader
	io.Closer
}

// contract returns the contract of the server's routes.
func (w *Harness) contract() *Contract { return ContractOf(w.Server.All()) }
