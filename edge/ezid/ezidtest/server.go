// Package ezidtest has a server that answers as EZID does, for tests: ANVL with percent-encoding, Basic authentication,
// the statuses of identifiers, and EZID's words for errors. It reads requests with code of its own.
package ezidtest

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Credentials and the shoulder of a [Server].
const (
	User     = "merritt"
	Password = "s3cret"
	Shoulder = "ark:/99999/fk4"
)

// Server is an EZID with one user and one shoulder.
type Server struct {
	*httptest.Server
	mu      sync.Mutex // guards the rest
	known   map[string]map[string]string
	minted  []string
	answers []http.HandlerFunc
	log     []string
}

// New starts a server, which ends with the test.
func New(t testing.TB) *Server {
	s := &Server{known: map[string]map[string]string{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ShoulderURL is the address at which the user mints, without the password.
func (s *Server) ShoulderURL() string {
	return strings.Replace(s.URL, "http://", "http://"+User+"@", 1) + "/shoulder/" + Shoulder
}

// Next answers the next requests, one each, before they are read. A handler may call Handle to have the request
// answered as usual.
func (s *Server) Next(answers ...http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, answers...)
}

// Record returns what is kept about an identifier; nil if there is none.
func (s *Server) Record(id string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.known[id])
}

// Minted lists the identifiers that were minted.
func (s *Server) Minted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.minted)
}

// Requests lists method and path of each request.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.log = append(s.log, r.Method+" "+r.URL.RequestURI())
	var answer http.HandlerFunc
	if len(s.answers) > 0 {
		answer, s.answers = s.answers[0], s.answers[1:]
	}
	s.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	s.Handle(w, r)
}

// Handle answers a request as EZID does.
func (s *Server) Handle(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status, line := s.handle(r)
	w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="EZID"`)
	}
	w.WriteHeader(status)
	fmt.Fprint(w, line)
}

func bad(why string) (int, string) { return http.StatusBadRequest, "error: bad request - " + why }

func (s *Server) handle(r *http.Request) (status int, line string) {
	if user, password, _ := r.BasicAuth(); user != User || password != Password {
		return http.StatusUnauthorized, "error: unauthorized"
	}
	about, fault := read(r)
	if fault != "" {
		return bad(fault)
	}
	if shoulder, ok := strings.CutPrefix(r.URL.Path, "/shoulder/"); ok && r.Method == http.MethodPost {
		if shoulder != Shoulder {
			return bad("no such shoulder created")
		}
		id := fmt.Sprintf("%st%04d", Shoulder, len(s.minted)+1)
		s.minted = append(s.minted, id)
		return s.create(id, about)
	}
	id, ok := strings.CutPrefix(r.URL.Path, "/id/")
	switch {
	case !ok:
		return http.StatusNotFound, "error: not found"
	case r.Method == http.MethodPost && s.known[id] == nil:
		return bad("no such identifier")
	case r.Method == http.MethodPost:
		return s.modify(id, about)
	case r.Method != http.MethodPut:
		return http.StatusMethodNotAllowed, "error: method not allowed"
	case !strings.HasPrefix(id, Shoulder):
		return http.StatusForbidden, "error: forbidden"
	case s.known[id] == nil:
		return s.create(id, about)
	case r.URL.Query().Get("update_if_exists") == "yes":
		return s.modify(id, about)
	}
	return bad("identifier already exists")
}

func (s *Server) create(id string, about map[string]string) (int, string) {
	if about["_status"] == "" {
		about["_status"] = "public"
	}
	s.known[id] = about
	return http.StatusCreated, "success: " + id
}

func (s *Server) modify(id string, about map[string]string) (int, string) {
	if was, to := s.known[id]["_status"], about["_status"]; to == "reserved" && was != "reserved" {
		return bad("invalid identifier status change")
	}
	maps.Copy(s.known[id], about)
	return http.StatusOK, "success: " + id
}

// writable are EZID's own elements that a request may have.
var writable = []string{"_target", "_status", "_owner", "_profile", "_export"}

// read reads a request's metadata.
func read(r *http.Request) (about map[string]string, fault string) {
	media, charset, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if media != "text/plain" {
		return nil, "unsupported content type"
	}
	if charset = strings.TrimSpace(charset); charset != "" && !strings.EqualFold(charset, "charset=utf-8") {
		return nil, "unsupported character encoding"
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, "unreadable body"
	}
	about = map[string]string{}
	for line := range strings.SplitSeq(strings.ReplaceAll(string(body), "\r", "\n"), "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		if !found {
			return nil, "element value but no element name"
		}
		name, value, ok := decoded(name, value)
		switch {
		case !ok:
			return nil, "percent-decode error"
		case name == "":
			return nil, "empty element name"
		case name[0] == '_' && !slices.Contains(writable, name):
			return nil, "use of reserved metadata element name"
		}
		if _, twice := about[name]; twice {
			return nil, "repeated element"
		}
		about[name] = value
	}
	if to := about["_status"]; to != "" && to != "public" && to != "reserved" {
		return nil, "invalid identifier status"
	}
	if to, ok := about["_target"]; ok {
		if u, err := url.Parse(to); err != nil || u.Host == "" {
			return nil, "invalid target URL"
		}
	}
	return about, ""
}

// decoded undoes percent-encoding; a percent sign without two hexadecimal digits is a mistake.
func decoded(name, value string) (string, string, bool) {
	n, err := url.PathUnescape(name)
	if err != nil {
		return "", "", false
	}
	v, err := url.PathUnescape(value)
	return strings.TrimSpace(n), strings.TrimSpace(v), err == nil
}
