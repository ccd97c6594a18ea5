package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/webhook"
	"github.com/stagepost/stagepost/edge/webhook/webhooktest"
	"github.com/stagepost/stagepost/host"
	"github.com/stagepost/stagepost/job"
)

// newSecretFile replaces the secret in a file.
func newSecretFile(t *testing.T, name string) webhook.Secret {
	t.Helper()
	text, err := webhook.NewSecret(rand.Reader)
	if err == nil {
		err = os.WriteFile(name, []byte(text+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := webhook.ParseSecret(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// command runs a command of the program against a server.
func command(r *host.Server, args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = run(append([]string{"--server", r.URL}, args...), strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

// TestCallback runs a job with the real parts. The receiver of its callback fails at first. The second attempt has the
// same id and the signature of a secret that was exchanged in between; the list of messages shows it.
// Orders that name other addresses are refused, with a reason.
func TestCallback(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "secret")
	var mu sync.Mutex
	secret, ids, bodies := newSecretFile(t, file), []string{}, [][]byte{}
	taken := make(chan struct{}, 10)
	ear := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, err := io.ReadAll(q.Body)
		id, wrong := webhook.Verify(q.Header, body, time.Now(), secret)
		if err := errors.Join(err, wrong, webhooktest.Check(q.Header, body)); err != nil {
			t.Errorf("try %d: %v", len(ids)+1, err)
		}
		if ids, bodies = append(ids, id), append(bodies, body); len(ids) == 1 {
			secret = newSecretFile(t, file)
			w.WriteHeader(http.StatusServiceUnavailable)
			if _, err := webhook.Verify(q.Header, body, time.Now(), secret); !errors.Is(err, webhook.ErrSignature) {
				t.Errorf("the control: with another secret it is %v", err)
			}
		}
		taken <- struct{}{}
	}))
	defer ear.Close()
	at, err := url.Parse(ear.URL)
	if err != nil {
		t.Fatal(err)
	}
	services := filepath.Join(dir, "services.yaml")
	text := "services:\n  loud:\n    callbacks: {secret_file: " + file + ", hosts: [\"" + at.Host +
		"\"], allow_networks: [127.0.0.0/8]}\n  quiet: {}\n"
	if err := os.WriteFile(services, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSettings()
	s.Data, s.Listen, s.Store = filepath.Join(dir, "data"), "127.0.0.1:0", "mem"
	computeOf(s).Local, computeOf(s).Sandbox, computeOf(s).Services = 1, "none", services
	r, err := host.Start(t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	}()
	for _, c := range [][3]string{
		{"loud", "http://169.254.169.254/latest/meta-data", at.Host + " only, not to 169.254.169.254"},
		{"loud", r.URL + "/api/v1/jobs", "only, not to"}, {"loud", "file:///etc/passwd", "scheme is not http or https"},
		{"quiet", ear.URL, "the service quiet sends none"},
	} {
		if code, out, errs := command(r, "run", "--service", c[0], "--callback", c[1], "--", "true"); code == 0 ||
			!strings.Contains(errs, c[2]) {
			t.Errorf("%s to %s: %d: %s%s", c[0], c[1], code, out, errs)
		}
	}
	if code, out, errs := command(r, "run", "--service", "loud", "--callback", ear.URL+"/done", "--label", "run=7",
		"--", "bash", "-c", "echo hello; exit 3"); code != 3 || out != "hello\n" {
		t.Errorf("%d: %s%s", code, out, errs)
	}
	for range 2 {
		select {
		case <-taken:
		case <-time.After(60 * time.Second):
			_, out, _ := command(r, "admin", "outbox", "--topic", "compute-callback")
			t.Fatalf("no callback:\n%s", out)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	var n struct {
		webhook.Event
		Data compute.News `json:"data"`
	}
	if err := json.Unmarshal(bodies[1], &n); err != nil || ids[0] != ids[1] || !bytes.Equal(bodies[0], bodies[1]) {
		t.Errorf("%q, %q: %s and %s (%v)", ids[0], ids[1], bodies[0], bodies[1], err)
	}
	if d := n.Data; n.Type != "io.github.stagepost.compute.failed" || d.Service != "loud" ||
		d.Cause != "exit-code" || d.ExitCode == nil || *d.ExitCode != 3 || d.Labels["run"] != "7" ||
		ids[0] != string(d.ID)+"/callback" {
		t.Errorf("got %+v", n)
	}
	delivered(t, r, ids[0])
}

// delivered waits until the list of messages shows one as delivered.
func delivered(t *testing.T, r *host.Server, key string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(30 * time.Second); ; <-tick.C {
		code, out, errs := command(r, "-o", "json", "admin", "outbox", "--topic", "compute-callback")
		var all []job.Message
		if err := json.Unmarshal([]byte(out), &all); code != 0 || err != nil || len(all) != 1 || all[0].Key != key {
			t.Fatalf("%d, %v: %s%s", code, err, out, errs)
		}
		if all[0].Settled == job.Delivered {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("got %s", out)
		}
	}
}
