package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/internal/conn"
)

// TestErrorsNameWhatToChange: an error that a person can correct names the file, setting, flag or command. WORK in a
// row is the directory of the test, PORT an address that is in use.
func TestErrorsNameWhatToChange(t *testing.T) {
	work := t.TempDir()
	t.Chdir(work)
	for name, text := range map[string]string{
		"file": "", "broken.yaml": "slots: [\n", "unknown.yaml": "\nslotz: 3\n", "bad.yaml": "grace: soon\n",
		"text":          "no token\n",
		"services.yaml": "services:\n  - nam: x\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	replace := strings.NewReplacer("WORK", work, "PORT", taken.Addr().String())
	for args, want := range map[string]string{
		"--config missing.yaml": "--config: open missing.yaml: no such file",
		"--config WORK":         "--config: read WORK: is a directory",
		"--config broken.yaml":  "broken.yaml:1: not YAML",
		"--config unknown.yaml": "unknown.yaml:2: there is no setting slotz (did you " +
			"mean slots?)",
		"--config bad.yaml": `bad.yaml:1: grace: "soon": it is not a duration`,
		"--slots 0":         `flag --slots: slots: "0": it must be more than 0`,
		"--log-level loud": "flag --log-level: log.level must be debug, info, warn " +
			"or error",
		"--backup-every soon": `flag --backup-every: backup.every: "soon": it is not a duration`,
		"--listen PORT": "listen: PORT is in use by another program; name " +
			"another port, or port 0",
		"--listen nonsense":                       `listen: "nonsense" is not HOST:`,
		"--listen 203.0.113.7:99":                 "listen: 203.0.113.7:99: without authentication (settings tokens",
		"--listen 127.0.0.1:99999":                "listen: 127.0.0.1:99999: the port must be a number from 0 to 65535",
		"--url jobs.example.org":                  `url: "jobs.example.org" is not an http or https URL`,
		"--hosts https://x.org":                   `hosts: "https://x.org" is not the name of a host: leave out scheme, port and path`,
		"--labels gpu,ca/rd":                      `labels: "ca/rd" is not NAME or NAME=VALUE`,
		"--metrics-listen PORT":                   "metrics.listen: PORT is in use by another program",
		"--compute-local 1 --compute-listen PORT": "compute.listen: PORT is in use by another program",
		"--data file": "data: mkdir WORK/file: not a directory (--data DIR " +
			"names a directory",
		"--data /proc/none": "data: mkdir /proc/none: no such file or directory " +
			"(--data DIR names a directory",
		"--tokens missing": "make it: stagepost admin token new --owner NAME " +
			"--role admin missing",
		"--tokens text":                                      "tokens: text: line 1: it needs hash, role, owner",
		"--backup-without mails":                             `backup.without: "mails" is no part of backups that can be left out (compute, storage)`,
		"--compute-services missing":                         "compute.services: open missing: no such file",
		"--compute-services services.yaml":                   "services.yaml:1:1: services: it must be",
		"--compute-local 1 --compute-tes-images a=b":         `compute.tes.images: a: there is no service "b"`,
		"--mail-smtp nonsense":                               "mail.smtp, mail.tls, mail.host: ",
		"--mail-smtp localhost:25 --mail-user x":             "mail.user and mail.password_file go together",
		"--mail-smtp localhost:25 --mail-password-file gone": "mail.password_file: open gone: no such file",
		"--flow-dirs missing --flow-commands":                `flow.dirs: "missing" is not absolute`,
		"--ingest-profiles text":                             "ingest.profiles: ",
		"--lifecycle-dir text":                               "lifecycle.dir: ",
	} {
		r, err := started(t, append([]string{"--data=" + filepath.Join(t.TempDir(), "data")},
			strings.Fields(replace.Replace(args))...)...)
		if err == nil {
			t.Errorf("%s: the server starts: %v", args, r.Stop())
		} else if want = replace.Replace(want); !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", args, err, want)
		}
	}
}

// TestErrorsOfADataDirectory: of a second server, and of a store that a newer program has written.
func TestErrorsOfADataDirectory(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	r, err := started(t, "--data="+data)
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	code := run([]string{"serve", "--listen=" + strings.TrimPrefix(r.URL, "http://"), "--data", data}, nil,
		&bytes.Buffer{}, &errs)
	text := strings.Join(strings.Fields(errs.String()), " ")
	for _, part := range []string{
		"another server runs on this data directory: " + data + " is in use by pid=", "--data DIR",
		fmt.Sprintf("hint: use that server (--data %s), stop it (kill %d on ", data, os.Getpid()),
	} {
		if code != 1 || !strings.Contains(text, part) {
			t.Errorf("a second server: %d, %s\nwant %s", code, text, part)
		}
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	c, err := conn.Open(filepath.Join(data, "stagepost.db"), conn.ReadWrite, "")
	if err == nil {
		err = c.Exec("INSERT INTO schema_version VALUES (999, 'later')")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err = started(t, "--data="+data); err == nil ||
		!strings.Contains(err.Error(), "has schema 999, this program supports ") ||
		!strings.Contains(err.Error(), "use a newer program") {
		t.Errorf("a newer store: %v", err)
	}
}

// TestErrorsOfAClient: of files of tokens, and of addresses.
func TestErrorsOfAClient(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, mode := range map[string]os.FileMode{"text": 0o600, "readable": 0o644} {
		if err := os.WriteFile(name, []byte("no token\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {})
	plain, secure := httptest.NewServer(answer), httptest.NewTLSServer(answer)
	defer plain.Close()
	defer secure.Close()
	for args, want := range map[string]string{
		"--token-file missing":    "token_file: missing: no such file",
		"--token-file readable":   "(chmod 600)",
		"--token-file text":       "token_file text: that is no token",
		"--data " + dir + "/none": "name one with --server URL or --data DIR",
		"--server " + secure.URL:  "(--cacert FILE names the certificate of its authority)",
		"--server " + strings.Replace(plain.URL, "http:", "https:",
			1): "does not use TLS: its address begins with http://",
		"--server nonsense": `"nonsense" is not the address of a server (http://HOST:PORT)`,
	} {
		if strings.HasPrefix(args, "--token-file") {
			args += " --server " + plain.URL
		}
		var errs bytes.Buffer
		code := run(append([]string{"list"}, strings.Fields(args)...), nil, &bytes.Buffer{}, &errs)
		if text := strings.Join(strings.Fields(errs.String()), " "); code == 0 || !strings.Contains(text, want) {
			t.Errorf("%s: %d, %s\nwant %s", args, code, text, want)
		}
	}
}
