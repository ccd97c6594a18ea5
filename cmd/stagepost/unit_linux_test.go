package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// stateDirectory is where the unit file has the data.
const stateDirectory = "/var/lib/stagepost"

// TestTokensOfAService installs the service as docs/operating.md describes: root makes a token, another user runs the
// server with the unit's environment and command. Without root it is one user. The control is a file that root keeps to
// itself.
func TestTokensOfAService(t *testing.T) {
	s := newService(t)
	secret := s.token()
	s.begin()
	for token, want := range map[string]int{secret: http.StatusOK, "": http.StatusUnauthorized,
		"stp_wrong": http.StatusUnauthorized} {
		if got := s.get(token); got != want {
			t.Errorf("with the token %q: status %d, want %d", token, got, want)
		}
	}
	write(t, s.file+".secret", secret+"\n")
	s.documented("stagepost list ")
	second := s.token() // root adds one while the server runs, which reads the file again within a second
	s.victim.kill(t)
	s.begin()
	if got := s.get(second); got != http.StatusOK {
		t.Errorf("with the second token: status %d", got)
	}
	s.victim.kill(t)
	if s.uid == os.Getuid() {
		return
	}
	if err := os.Chown(s.file, 0, 0); err != nil {
		t.Fatal(err)
	}
	v := s.command()
	var said bytes.Buffer
	v.Stderr = &said
	if err := v.Run(); err == nil || !strings.Contains(said.String(), "permission denied") {
		t.Errorf("the control: the server reads a file of root: %v, %s", err, &said)
	}
}

// TestTokensFileIsMissing: a server whose file of tokens is missing does not start, and names the command that makes
// it.
func TestTokensFileIsMissing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	v := prepare(t, t.TempDir(), "--tokens", file)
	var said bytes.Buffer
	v.Stderr = &said
	if err := v.Run(); err == nil || !strings.Contains(said.String(),
		"stagepost admin token new --owner NAME --role admin "+file) {
		t.Errorf("%v, %s", err, &said)
	}
}

// service is the server as the unit file starts it, below a directory of the test.
type service struct {
	t      *testing.T
	data   string
	file   string // of tokens
	path   string // of the program, which the service's user can reach
	uid    int
	env    []string
	args   []string
	victim *victim
}

func newService(t *testing.T) *service {
	t.Helper()
	dir := t.TempDir()
	s := &service{t: t, data: filepath.Join(dir, "data"), path: filepath.Join(dir, "stagepost"), uid: os.Getuid()}
	s.file = filepath.Join(s.data, "tokens")
	if s.uid == 0 && reachable(dir) {
		s.uid = 10_001
	}
	built, err := program()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(built)
	if err = errors.Join(err, os.WriteFile(s.path, text, 0o755), os.Mkdir(s.data, 0o700),
		os.Chown(s.data, s.uid, s.uid)); err != nil {
		t.Fatal(err)
	}
	unit, err := os.ReadFile("../../contrib/systemd/stagepost.service")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(unit)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "Environment":
			s.env = append(s.env, strings.ReplaceAll(value, stateDirectory, s.data))
		case "ExecStart":
			s.args = strings.Fields(value)[1:]
		}
	}
	return s
}

// reachable reports whether other users can enter a directory.
func reachable(dir string) bool {
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
	}
	return true
}

// secretFile is where the documentation keeps the token.
const secretFile = "/root/stagepost.token"

// documented runs the line of the documentation that begins with some words, as root, with the paths of the test.
func (s *service) documented(begin string) string {
	s.t.Helper()
	text, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, begin) || !strings.Contains(line, stateDirectory) {
			continue
		}
		line, _, _ = strings.Cut(line, " > ")
		line = strings.NewReplacer(stateDirectory, s.data, secretFile, s.file+".secret").Replace(line)
		cmd := exec.Command(s.path, strings.Fields(line)[1:]...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			s.t.Fatalf("%s: %v", line, err)
		}
		return strings.TrimSpace(string(out))
	}
	s.t.Fatalf("docs/operating.md has no line that begins with %q", begin)
	return ""
}

// token makes a token by the command of the documentation.
func (s *service) token() string {
	s.t.Helper()
	return s.documented("stagepost admin token new ")
}

// command gives the command of the unit, with its environment and nothing else.
func (s *service) command() *victim {
	v := &victim{Cmd: exec.Command(s.path, s.args...)}
	v.Env = append([]string{"PATH=/usr/bin:/bin", "STAGEPOST_LISTEN=127.0.0.1:0"}, s.env...)
	v.Dir, v.Stderr = s.data, os.Stderr
	if s.uid != os.Getuid() {
		v.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(s.uid), Gid: uint32(s.uid)}}
	}
	return v
}

func (s *service) begin() {
	s.t.Helper()
	v := s.command()
	v.begin(s.t)
	s.victim = v
	s.t.Cleanup(func() { _ = v.Process.Kill() }) // of one that was killed it does nothing
}

// get asks for the jobs with a token.
func (s *service) get(token string) int {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.victim.url+"/api/v1/jobs", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode
}
