package main

import (
	"bufio"
	"encoding/hex"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// listening lists the TCP addresses on which this process listens, from the tables of the kernel.
func listening(t *testing.T) (all []netip.AddrPort) {
	t.Helper()
	own := map[string]bool{}
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, "socket:[") {
			own[strings.Trim(to, "socket:[]")] = true
		}
	}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			columns := strings.Fields(lines.Text())
			const listen = "0A"
			if len(columns) > 9 && columns[3] == listen && own[columns[9]] {
				all = append(all, addressOf(t, columns[1]))
			}
		}
		_ = f.Close()
	}
	return all
}

// addressOf reads an address of the tables: words in the order of this machine, and the port.
func addressOf(t *testing.T, text string) netip.AddrPort {
	t.Helper()
	words, number, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(words)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+4 <= len(b); i += 4 {
		slices.Reverse(b[i : i+4])
	}
	port, err := strconv.ParseUint(number, 16, 16)
	if err != nil {
		t.Fatal(err)
	}
	address, _ := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(address.Unmap(), uint16(port))
}

// TestDefaultStart scans what a start with the default settings opens: one address, on the loopback, without pages for
// debugging, jobs, flows or users that were there before. The control is an address of its own for metrics, which the
// scan finds.
func TestDefaultStart(t *testing.T) {
	before := listening(t)
	r, err := started(t, "--data", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	opened := slices.DeleteFunc(listening(t), func(a netip.AddrPort) bool { return slices.Contains(before, a) })
	if len(opened) != 1 || !opened[0].Addr().IsLoopback() || r.URL != "http://"+opened[0].String() {
		t.Errorf("the default start listens on %v, and answers at %s", opened, r.URL)
	}
	for _, path := range []string{"/debug/pprof/", "/debug/vars", "/debug/pprof/heap", "/admin", "/console", "/env",
		"/actuator", "/server-status", "/.git/config", "/api/v1/admin/users"} {
		answer, err := http.Get(r.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, answer.Status)
		}
	}
	c, err := client.New(r.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if page, err := c.Jobs(t.Context(), job.Query{}); err != nil || len(page.Jobs) > 0 {
		t.Errorf("jobs of a new server: %+v, %v", page.Jobs, err)
	}
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
	r, err = started(t, "--data", t.TempDir(), "--metrics-listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Stop() }()
	opened = slices.DeleteFunc(listening(t), func(a netip.AddrPort) bool { return slices.Contains(before, a) })
	if len(opened) != 2 {
		t.Errorf("the control: with an address for metrics it listens on %v", opened)
	}
}
