package zktest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Network is an ensemble whose servers each have a network namespace of their own, so that the test can cut the
// connections between any two of them, and between them and the client, which is the test. It needs root, iproute2 and
// iptables; scripts/tools installs them.
type Network struct {
	*Ensemble
	t      testing.TB
	prefix string // of the addresses: "10.77.3."
	name   string // of namespaces and interfaces
}

// StartNetwork starts n servers, which are stopped when t ends.
func StartNetwork(t testing.TB, n int) *Network {
	t.Helper()
	if err := installed(); err != nil {
		t.Fatal(err)
	}
	w := &Network{Ensemble: &Ensemble{}, t: t, prefix: fmt.Sprintf("10.77.%d.", os.Getpid()%250),
		name: fmt.Sprintf("zk%d", os.Getpid()%100000)}
	w.ip("link", "add", w.name, "type", "bridge")
	t.Cleanup(func() { w.try("ip", "link", "del", w.name) })
	w.ip("addr", "add", w.prefix+"254/24", "dev", w.name)
	w.ip("link", "set", w.name, "up")
	more := "initLimit=25\nsyncLimit=10\n4lw.commands.whitelist=srvr\n"
	for i := range n {
		more += fmt.Sprintf("server.%d=%s:2888:3888\n", i+1, w.host(i))
	}
	for i := range n {
		w.namespace(i)
		dir := t.TempDir()
		s := &Server{Address: w.host(i) + ":2181", dir: dir, more: more, ready: "binding to port",
			space: w.space(i)}
		if err := os.MkdirAll(filepath.Join(dir, "data"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "data", "myid"), []byte(fmt.Sprint(i+1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.run(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Kill)
		w.Servers = append(w.Servers, s)
	}
	for _, s := range w.Servers {
		s.Raw(t).Close()
	}
	return w
}

func (w *Network) host(i int) string  { return fmt.Sprint(w.prefix, i+1) }
func (w *Network) space(i int) string { return fmt.Sprint(w.name, "-", i+1) }

// namespace makes the network of a server.
func (w *Network) namespace(i int) {
	w.t.Helper()
	space, outer, inner := w.space(i), fmt.Sprint(w.name, "o", i+1), fmt.Sprint(w.name, "i", i+1)
	w.ip("netns", "add", space)
	w.t.Cleanup(func() { w.try("ip", "netns", "del", space) })
	w.ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", space)
	w.ip("link", "set", outer, "master", w.name, "up")
	w.ip("-n", space, "addr", "add", w.host(i)+"/24", "dev", inner)
	w.ip("-n", space, "link", "set", inner, "up")
	w.ip("-n", space, "link", "set", "lo", "up")
}

func (w *Network) ip(args ...string) {
	w.t.Helper()
	if out, err := w.try("ip", args...); err != nil {
		w.t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func (w *Network) try(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	return string(out), err
}

// drop drops what a server receives from an address.
func (w *Network) drop(i int, from string) { w.rule(i, "-A", "INPUT", "-s", from, "-j", "DROP") }

func (w *Network) rule(i int, args ...string) {
	w.t.Helper()
	all := append([]string{"netns", "exec", w.space(i), "iptables", "-w"}, args...)
	w.ip(all...)
}

// Part separates a server from the others. Clients still reach it.
func (w *Network) Part(i int) {
	w.t.Helper()
	for j := range w.Servers {
		if j != i {
			w.drop(i, w.host(j))
			w.drop(j, w.host(i))
		}
	}
}

// Cut separates a server from the others and from clients.
func (w *Network) Cut(i int) {
	w.t.Helper()
	w.rule(i, "-A", "INPUT", "!", "-i", "lo", "-j", "DROP")
	w.rule(i, "-A", "OUTPUT", "!", "-o", "lo", "-j", "DROP")
}

// OneWay drops what a server receives from another one, which still receives what it sends.
func (w *Network) OneWay(i, from int) {
	w.t.Helper()
	w.drop(i, w.host(from))
}

// Client separates the test from all servers, which still reach each other.
func (w *Network) Client() {
	w.t.Helper()
	for i := range w.Servers {
		w.drop(i, w.prefix+"254")
	}
}

// Heal ends all separations.
func (w *Network) Heal() {
	w.t.Helper()
	for i := range w.Servers {
		w.rule(i, "-F")
	}
}

// Leads returns the number of the server that leads. It waits until one does.
func (w *Network) Leads() int {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		for i, s := range w.Servers {
			if mode(s.Address) == "leader" {
				return i
			}
		}
	}
	w.t.Fatal("no server leads within a minute")
	return 0
}

// mode returns "leader", "follower" or "" of a server.
func mode(address string) string {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return ""
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Write([]byte("srvr")); err != nil {
		return ""
	}
	var text strings.Builder
	b := make([]byte, 4096)
	for {
		n, err := c.Read(b)
		text.Write(b[:n])
		if err != nil {
			break
		}
	}
	_, after, _ := strings.Cut(text.String(), "Mode: ")
	m, _, _ := strings.Cut(after, "\n")
	return m
}
