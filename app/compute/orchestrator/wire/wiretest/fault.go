package wiretest

import (
	"net/http"
	"strings"
	"sync"
)

// Fault is a way in which a fake misbehaves.
type Fault struct {
	// Path is the beginning of the paths that it strikes: "/submit", "/retrieve/", ...
	Path string
	// Times it strikes; 0 is indefinitely.
	Times int

	// Hang never answers, until [FakeClient.Heal] or the end of the test.
	Hang bool
	// Lose does the work and closes the connection instead of answering.
	Lose bool
	// Code answers with this status and an empty body, and does nothing.
	Code int
	// Cut sends only that many bytes of a ZIP and calls it the whole.
	Cut int
	// Break sends only that many bytes of a ZIP and closes the connection.
	Break int
	// Empty sends a ZIP without a file in place of one.
	Empty bool
}

// faults strikes requests.
type faults struct {
	mu     sync.Mutex
	list   []*Fault
	healed chan struct{}
}

// next gives the fault that strikes a request, and the signal that ends a hang.
func (f *faults) next(path string) (*Fault, chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, one := range f.list {
		if !strings.HasPrefix(path, one.Path) {
			continue
		}
		struck := *one
		if one.Times > 0 {
			if one.Times--; one.Times == 0 {
				f.list = append(f.list[:i:i], f.list[i+1:]...)
			}
		}
		return &struck, f.healed
	}
	return nil, f.healed
}

func (f *faults) add(one Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, &one)
}

func (f *faults) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = nil
	close(f.healed)
	f.healed = make(chan struct{})
}

// strike serves a request with the fault that is due. note is called when that is settled, so that a caller that has
// noticed a request may heal what hangs.
func (f *faults) strike(w http.ResponseWriter, r *http.Request, note func(), serve http.Handler) {
	fault, healed := f.next(r.URL.Path)
	note()
	switch {
	case fault == nil:
		serve.ServeHTTP(w, r)
	case fault.Hang:
		select {
		case <-healed:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	case fault.Code != 0:
		reply(w, fault.Code, "", "")
	case fault.Lose:
		serve.ServeHTTP(&deaf{header: http.Header{}}, r)
		panic(http.ErrAbortHandler)
	case fault.Cut > 0, fault.Break > 0, fault.Empty:
		d := &deaf{header: http.Header{}}
		serve.ServeHTTP(d, r)
		f.shorten(w, d, fault)
	default:
		serve.ServeHTTP(w, r)
	}
}

func (f *faults) shorten(w http.ResponseWriter, d *deaf, fault *Fault) {
	body := d.body
	if d.header.Get("Content-Type") != isZIP {
		reply(w, d.code, d.header.Get("Content-Type"), string(body))
		return
	}
	if fault.Empty {
		reply(w, d.code, isZIP, "PK\x05\x06"+strings.Repeat("\x00", 18)) // 22 bytes: nothing but the end
		return
	}
	if fault.Cut > 0 {
		reply(w, d.code, isZIP, string(body[:min(fault.Cut, len(body))]))
		return
	}
	w.Header().Set("Content-Type", isZIP)
	w.Header().Set("Content-Length", d.header.Get("Content-Length"))
	w.Write(body[:min(fault.Break, len(body)-1)])
	http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// deaf takes an answer that is not sent.
type deaf struct {
	header http.Header
	code   int
	body   []byte
}

func (d *deaf) Header() http.Header { return d.header }
func (d *deaf) WriteHeader(c int)   { d.code = c }
func (d *deaf) Write(p []byte) (int, error) {
	if d.code == 0 {
		d.code = http.StatusOK
	}
	d.body = append(d.body, p...)
	return len(p), nil
}
