package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// observedName is the name under which the test binary is the program whose commits are reported.
const observedName = "stagepost-observed"

// observerVariable has the address to which they are reported.
const observerVariable = "BOUNDARY_OBSERVER"

// boundaries counts the points at which a process can be killed, and kills it at one of them: each commit of a database
// of the process, and each request to a server of the test, before and after it. The process waits at each point, so
// that the kill comes exactly there.
type boundaries struct {
	url string // to which a process reports its commits

	mu     sync.Mutex // guards the rest
	on     bool
	at     int // number of the point, from 1; 0: the process is not killed
	passed []string
	kill   func()
	hit    chan string   // the point of the kill
	gone   chan struct{} // closed when the killed process has ended
}

func newBoundaries(t *testing.T) *boundaries {
	b := &boundaries{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !b.pass(r.URL.Query().Get("point")) {
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(server.Close)
	b.url = server.URL
	return b
}

// arm counts from now on, and kills the process at a point. The channel receives the name of the point.
func (b *boundaries) arm(at int, kill func()) <-chan string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.on, b.at, b.passed, b.kill = true, at, nil, kill
	b.hit, b.gone = make(chan string, 1), make(chan struct{})
	return b.hit
}

// disarm ends the counting and gives the points that were passed. A killed process has ended.
func (b *boundaries) disarm() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.on {
		b.on = false
		close(b.gone)
	}
	return b.passed
}

// pass is called at each point. It reports whether the process lives on.
func (b *boundaries) pass(point string) bool {
	b.mu.Lock()
	if !b.on {
		b.mu.Unlock()
		return true
	}
	b.passed = append(b.passed, point)
	n, gone := len(b.passed), b.gone
	if b.at == 0 || n < b.at {
		b.mu.Unlock()
		return true
	}
	if n == b.at {
		b.kill()
		b.hit <- point
	}
	b.mu.Unlock()
	<-gone
	return false
}

// observe serves a handler whose requests are points, before they are carried out and before they are answered.
func (b *boundaries) observe(t *testing.T, h http.Handler, name func(*http.Request) string) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler) // the process was killed while it sent
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		what := name(r)
		if !b.pass("before " + what) {
			panic(http.ErrAbortHandler)
		}
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, r)
		if !b.pass("after " + what) {
			panic(http.ErrAbortHandler)
		}
		for key, values := range answer.Header() {
			w.Header()[key] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}))
	t.Cleanup(s.Close)
	return s
}

// observed is the program, which reports each commit of its databases and waits for the answer.
func observed() {
	tls := libc.NewTLS()
	if rc := sqlite3.Xsqlite3_auto_extension(tls, cFunc(attach)); rc != sqlite3.SQLITE_OK {
		fmt.Fprintln(os.Stderr, "auto_extension:", rc)
		os.Exit(1)
	}
	main()
}

// committed has the connections whose commit is not complete.
var committed sync.Map

// attach observes a new connection. It is an sqlite3 entry point.
func attach(tls *libc.TLS, db, _, _ uintptr) int32 {
	sqlite3.Xsqlite3_commit_hook(tls, db, cFunc(beforeCommit), db)
	return sqlite3.Xsqlite3_trace_v2(tls, db, sqlite3.SQLITE_TRACE_PROFILE, cFunc(afterStatement), db)
}

// beforeCommit is a commit hook.
func beforeCommit(tls *libc.TLS, db uintptr) int32 {
	committed.Store(db, true)
	reportPoint("before commit " + databaseOf(tls, db))
	return 0
}

// afterStatement is a trace function.
func afterStatement(tls *libc.TLS, _ uint32, db, _, _ uintptr) int32 {
	if sqlite3.Xsqlite3_get_autocommit(tls, db) == 0 {
		return 0
	}
	if _, was := committed.LoadAndDelete(db); was {
		reportPoint("after commit " + databaseOf(tls, db))
	}
	return 0
}

func databaseOf(tls *libc.TLS, db uintptr) string {
	return filepath.Base(libc.GoString(sqlite3.Xsqlite3_db_filename(tls, db, 0)))
}

// reportPoint names a point to the test and waits until it answers.
func reportPoint(point string) {
	answer, err := http.Get(os.Getenv(observerVariable) + "/?point=" + url.QueryEscape(point))
	if err == nil { // else the test has ended
		_ = answer.Body.Close()
	}
}

// cFunc gives the address of a function as the translated C code takes it.
func cFunc[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&struct{ f F }{f})) }
