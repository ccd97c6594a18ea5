package tus_test

import (
	"bufio"
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/edge/tus"
	"github.com/stagepost/stagepost/store/crash/power"
)

func TestMain(m *testing.M) {
	power.Main()
	if dir := os.Getenv("TUS_CHILD"); dir != "" {
		child(dir)
	}
	os.Exit(m.Run())
}

// child serves a store until it is killed.
func child(dir string) {
	s, err := tus.New(tus.Options{Dir: dir})
	if err != nil {
		os.Exit(1)
	}
	server := httptest.NewServer(s.Handler("/files"))
	_, _ = os.Stdout.WriteString(server.URL + "\n")
	select {}
}

func start(t *testing.T, dir string) (url string, kill func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "TUS_CHILD="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
}

// killer kills the server when so many bytes have been sent.
type killer struct {
	*bytes.Reader
	after int
	kill  func()
}

func (k *killer) Read(b []byte) (int, error) {
	if k.after <= 0 {
		k.kill()
	}
	n, err := k.Reader.Read(b[:min(len(b), 1000)])
	k.after -= n
	return n, err
}

// TestKill kills the server in the middle of pieces, with and without checksums, and goes on until all is there.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	sent := content(1 << 20)
	url, kill := start(t, dir)
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/files", nil)
	r.Header = http.Header{"Tus-Resumable": {"1.0.0"}, "Upload-Length": {strconv.Itoa(len(sent))}}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	at := answer.Header.Get("Location")
	from, kills := 0, 0
	for round := 0; from < len(sent); round++ {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPatch, url+at,
			&killer{bytes.NewReader(sent[from:]), 150_000 + 10_000*round, kill})
		r.ContentLength = int64(len(sent) - from)
		r.Header = http.Header{"Tus-Resumable": {"1.0.0"}, "Upload-Offset": {strconv.Itoa(from)},
			"Content-Type": {"application/offset+octet-stream"}}
		if round%3 == 1 {
			r.Header.Set("Upload-Checksum", checksum("sha1", sent[from:]))
		}
		if answer, err := http.DefaultClient.Do(r); err == nil {
			_ = answer.Body.Close()
		}
		kill()
		kills++
		url, kill = start(t, dir)
		r, _ = http.NewRequestWithContext(t.Context(), http.MethodHead, url+at, nil)
		r.Header = http.Header{"Tus-Resumable": {"1.0.0"}}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		now, err := strconv.Atoi(answer.Header.Get("Upload-Offset"))
		if err != nil || now < from || (round%3 == 1 && now != from && now != len(sent)) {
			t.Fatalf("after a kill it stands at %q, before at %d", answer.Header.Get("Upload-Offset"), from)
		}
		from = now
	}
	kill()
	if kills < 3 {
		t.Errorf("only %d kills", kills)
	}
	w := open(t, tus.Options{Dir: dir})
	w.taken(at, "", sent)
}
