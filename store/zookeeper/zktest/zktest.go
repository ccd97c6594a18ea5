// Package zktest runs a real ZooKeeper server for tests: that of Debian's package zookeeper, in a directory of its own,
// on a loopback address. Tests fail where it is not installed; scripts/tools installs it.
package zktest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// Tick is the unit of time of the server: a session lasts at least 2 ticks without contact, and at most a minute.
const Tick = 200 * time.Millisecond

// Server is a running server.
type Server struct {
	Address string // "127.0.0.1:41234"

	dir   string
	more  string // further lines of its configuration
	ready string // the line of its log after which clients can connect
	space string // network namespace; "": that of the test
	cmd   *exec.Cmd
	done  chan struct{} // closed when the process has ended
}

// jars are the libraries of the server, in Debian's directory of Java libraries.
var jars = strings.Fields("zookeeper zookeeper-jute slf4j-api slf4j-simple metrics-core snappy-java netty-all")

const jarDir = "/usr/share/java/"

// errMissing means that the server is not installed.
var errMissing = errors.New("no ZooKeeper server: apt-get install zookeeper")

var shared struct {
	sync.Mutex
	server *Server
	err    error
}

// Main runs the tests of a package, and then stops the server that they shared. TestMain calls it.
func Main(m *testing.M) {
	code := m.Run()
	if shared.server != nil {
		shared.server.Stop()
	}
	os.Exit(code)
}

// Shared returns the server that the tests of the package share, without nodes. The first call starts it. A test that
// uses it does not run in parallel with others.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = Start()
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	shared.server.clear(t)
	return shared.server
}

// Start starts a server. It is ready when Start returns.
func Start() (*Server, error) {
	if err := installed(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "zktest")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, ready: "PrepRequestProcessor (sid:0) started"}
	for range 5 { // another process may take the port first
		if err = s.start(); err == nil {
			return s, nil
		}
	}
	os.RemoveAll(dir)
	return nil, err
}

func (s *Server) start() error {
	addresses, err := free(1)
	if err != nil {
		return err
	}
	s.Address = addresses[0]
	return s.run()
}

// free returns addresses that no process listens on at the moment.
func free(n int) (addresses []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}

// installed returns why no server can be started, or nil.
func installed() error {
	for _, jar := range jars {
		if _, err := os.Stat(jarDir + jar + ".jar"); err != nil {
			return errMissing
		}
	}
	if _, err := exec.LookPath("java"); err != nil {
		return errMissing
	}
	return nil
}

// run starts the process at the address, with the data of earlier ones.
func (s *Server) run() error {
	host, port, _ := net.SplitHostPort(s.Address)
	config := fmt.Sprintf("tickTime=%d\ndataDir=%s/data\nclientPort=%s\nclientPortAddress=%s\n"+
		"admin.enableServer=false\nmaxClientCnxns=0\nmaxSessionTimeout=60000\n%s", Tick.Milliseconds(), s.dir,
		port, host, s.more)
	file := filepath.Join(s.dir, "zoo.cfg")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	path := make([]string, len(jars))
	for i, jar := range jars {
		path[i] = jarDir + jar + ".jar"
	}
	// The tests end processes, not machines, so that writes need not be synced.
	// The tests end processes, not machines, so that writes need not be synced.
	args := []string{"java", "-Dzookeeper.forceSync=no", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-cp", strings.Join(path, ":"), "org.apache.zookeeper.server.quorum.QuorumPeerMain", file}
	if s.space != "" {
		args = append([]string{"ip", "netns", "exec", s.space}, args...)
	}
	s.cmd = exec.Command(args[0], args[1:]...)
	out, err := s.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.done = make(chan struct{})
	started := make(chan string, 1)
	go func() {
		defer close(s.done)
		readiness(out, s.ready, started)
		s.cmd.Wait()
	}()
	select {
	case text := <-started:
		if text != "" {
			s.Kill()
			return fmt.Errorf("the server ended: %s", text)
		}
		return nil
	case <-time.After(time.Minute):
		s.Kill()
		return errors.New("the server was not ready within a minute")
	}
}

// readiness reads the log of a server to its end. It sends "" when the server accepts requests, or the last lines if
// it ends before.
func readiness(out io.Reader, mark string, started chan<- string) {
	var last []string
	ready := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		last = append(last, line)
		last = last[max(0, len(last)-5):]
		if !ready && strings.Contains(line, mark) {
			ready = true
			started <- ""
		}
	}
	if !ready {
		started <- strings.Join(append(last, "(end of log)"), "\n")
	}
}

// Kill ends the process at once, as a power cut of its machine would. Its data remain.
func (s *Server) Kill() {
	s.cmd.Process.Kill()
	<-s.done
}

// Restart starts the server again after Kill.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
}

// Pause stops the process from running, and Continue lets it run again.
func (s *Server) Pause(t testing.TB)    { s.signal(t, stop) }
func (s *Server) Continue(t testing.TB) { s.signal(t, cont) }

func (s *Server) signal(t testing.TB, sig os.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// Stop ends the process and removes its data.
func (s *Server) Stop() {
	s.Kill()
	os.RemoveAll(s.dir)
}

// clear removes all nodes.
func (s *Server) clear(t testing.TB) {
	t.Helper()
	c := s.Raw(t)
	names, _, err := c.Children("/")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if name != "zookeeper" {
			Remove(t, c, "/"+name)
		}
	}
	c.Close()
}

// Raw returns a connection of the client library, which is closed when t ends.
func (s *Server) Raw(t testing.TB) *zk.Conn {
	t.Helper()
	c, events, err := zk.Connect([]string{s.Address}, 20*Tick, zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	timeout := time.After(time.Minute)
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return c
			}
		case <-timeout:
			t.Fatal("no connection within a minute")
		}
	}
}

type quiet struct{}

// Printf is part of zk.Logger.
func (quiet) Printf(string, ...any) {}

// Remove removes a node and all below it.
func Remove(t testing.TB, c *zk.Conn, path string) {
	t.Helper()
	names, _, err := c.Children(path)
	if err != nil && err != zk.ErrNoNode {
		t.Fatal(path, err)
	}
	for _, name := range names {
		Remove(t, c, path+"/"+name)
	}
	if err := c.Delete(path, -1); err != nil && err != zk.ErrNoNode {
		t.Fatal(path, err)
	}
}

// Tree returns all nodes below a path with their data, without /zookeeper.
func Tree(t testing.TB, c *zk.Conn, path string) map[string]string {
	t.Helper()
	all := map[string]string{}
	tree(t, c, path, all)
	return all
}

func tree(t testing.TB, c *zk.Conn, path string, all map[string]string) {
	t.Helper()
	parent := strings.TrimSuffix(path, "/")
	names, _, err := c.Children(path)
	if err == zk.ErrNoNode {
		return // an ephemeral one
	}
	if err != nil {
		t.Fatal(path, err)
	}
	for _, name := range names {
		if path == "/" && name == "zookeeper" {
			continue
		}
		child := parent + "/" + name
		data, _, err := c.Get(child)
		if err == zk.ErrNoNode {
			continue
		}
		if err != nil {
			t.Fatal(child, err)
		}
		all[child] = string(data)
		tree(t, c, child, all)
	}
}

// Ended reports whether the process has ended.
func (s *Server) Ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}
