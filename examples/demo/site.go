package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	example "github.com/stagepost/stagepost/examples/ingest"
	"github.com/stagepost/stagepost/internal/durable"
)

// Names of a demo below its data directory.
const (
	siteName    = "website"
	DemoFile    = "demo.json"
	demoProfile = "demo"
	film        = "film/film.mkv" // the largest file
)

// demoRecord is the content of demo.json: what is needed to serve the web site again.
type demoRecord struct {
	Listen string `json:"listen"` // address of the web site, which is in its manifests
}

// makeDemo builds web site and profile of a demo. demo.json comes last, so that a directory that has it is complete.
func makeDemo(dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, "profiles"), 0o700); err != nil {
		return err
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0") // takes a free port, which the manifests then name
	if err != nil {
		return err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return err
	}
	if _, err := example.Build(filepath.Join(dir, siteName), "http://"+address); err != nil {
		return err
	}
	text := "id: " + demoProfile + "\ndescription: the demo may fetch from this machine\n" +
		"owner: demo\nallow_networks: [127.0.0.0/8]\n"
	if err := os.WriteFile(filepath.Join(dir, "profiles", demoProfile+".yaml"), []byte(text), 0o600); err != nil {
		return err
	}
	record, err := json.Marshal(demoRecord{Listen: address})
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(dir, DemoFile), append(record, '\n'))
}

// RestoreDemo serves the web site of a demo again, at its old address, when dir is the data directory of a demo; else
// it gives nil.
func RestoreDemo(dir string) (io.Closer, error) {
	s, err := openSite(dir)
	if s == nil || err != nil {
		return nil, err
	}
	s.serve(http.FileServerFS(s.root.FS()))
	return s, nil
}

// webSite is the web site of a demo.
type webSite struct {
	root     *os.Root
	listener net.Listener
	http     *http.Server
	done     chan error
}

// openSite listens on the address of the web site in a data directory; it gives nil if the directory is not that of a
// demo.
func openSite(dir string) (*webSite, error) {
	text, err := os.ReadFile(filepath.Join(dir, DemoFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var record demoRecord
	if err := json.Unmarshal(text, &record); err != nil {
		return nil, fmt.Errorf("%s: %w", DemoFile, err)
	}
	address, err := netip.ParseAddrPort(record.Listen)
	if err != nil || !address.Addr().IsLoopback() {
		return nil, fmt.Errorf("%s: %q is no address on this machine", DemoFile, record.Listen)
	}
	root, err := os.OpenRoot(filepath.Join(dir, siteName))
	if err != nil {
		return nil, fmt.Errorf("the web site of the demo: %w", err)
	}
	l, err := net.Listen("tcp", record.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%s is in use: another stagepost demo site has it, or another program, which must end first",
			record.Listen)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the web site of the demo: %w", err), root.Close())
	}
	return &webSite{root: root, listener: l, done: make(chan error, 1)}, nil
}

func (s *webSite) serve(handler http.Handler) {
	s.http = &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go func() { s.done <- s.http.Serve(s.listener) }()
}

// Close ends the web site.
func (s *webSite) Close() error {
	err := s.http.Close()
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return errors.Join(err, s.root.Close())
}

// gate serves the web site, and half of the film: the rest is not sent until the gate is opened. So the film is always
// being fetched when the demo kills the server.
type gate struct {
	files  http.Handler
	root   fs.FS
	half   chan struct{} // closed when half of the film was sent
	sent   sync.Once
	opened chan struct{} // closed when the film may be sent
}

func newGate(root fs.FS) *gate {
	return &gate{files: http.FileServerFS(root), root: root, half: make(chan struct{}), opened: make(chan struct{})}
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-g.opened:
	default:
		if r.Method == http.MethodGet && r.URL.Path == "/"+film {
			g.sendHalf(w, r)
			return
		}
	}
	g.files.ServeHTTP(w, r)
}

// sendHalf sends half of the film and waits until the server that asked for it is gone.
func (g *gate) sendHalf(w http.ResponseWriter, r *http.Request) {
	f, err := g.root.Open(film)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Length", fmt.Sprint(info.Size()))
	if _, err := io.CopyN(w, f, info.Size()/2); err != nil {
		return // the other side closed the connection
	}
	g.sent.Do(func() { close(g.half) })
	select {
	case <-r.Context().Done():
	case <-g.opened:
	}
	panic(http.ErrAbortHandler)
}
