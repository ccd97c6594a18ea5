package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/stagepost/stagepost/config"
	"github.com/stagepost/stagepost/job"
)

// Common are those of every command.
type Common struct {
	*config.Set
	Identity string // directory of the certificate of a worker or an agent; empty: none

	Data      string `name:"data" doc:"the data directory: store, logs, payloads, address of the server"`
	Server    string `name:"server" doc:"the server to talk to, as a URL; defaults to the one of the data directory"`
	Token     string `name:"token_file" doc:"file with the token to send to the server, which must be readable by its owner alone; STAGEPOST_TOKEN, the token itself, goes before it; defaults to none"`
	CAFile    string `name:"cacert" doc:"PEM file with the server's certificate authority; defaults to those of the system"`
	Output    string `name:"output" short:"o" doc:"how to print: table, plain (lines with tabs) or json; defaults to table on a terminal and plain in a pipe"`
	Reasons   string `name:"reasons" for:"serve" choices:"optional required" default:"optional" doc:"whether staff (operators and admins, without tokens all callers) must give a reason for each change: required refuses those without --note"`
	LogLevel  string `name:"log.level" for:"serve" choices:"debug info warn error" default:"info" doc:"what the server logs to standard error: debug, info, warn or error"`
	LogFormat string `name:"log.format" for:"serve" choices:"text json" default:"text" doc:"text or json"`
}

// NewCommon makes the settings of every command, with other groups beside them.
func NewCommon(groups ...any) *Common {
	s := &Common{Data: defaultData()}
	s.Set = config.New(func() string { return s.Data }, append([]any{s}, groups...)...)
	return s
}

func defaultData() string {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "stagepost")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "share", "stagepost")
	}
	return "stagepost-data"
}

// AddressFile is where a server leaves its address for those who know its data directory.
func (s *Common) AddressFile() string { return filepath.Join(s.Data, "address") }

// findServer gives the address of the server to talk to.
func (s *Common) findServer() (string, error) {
	if root, ok := strings.CutSuffix(strings.TrimRight(s.Server, "/"), "/api/v1"); ok {
		return "", Usagef("%q is an address of the API: name the server, %s", s.Server, root)
	}
	if s.Server != "" {
		return s.Server, nil
	}
	text, err := os.ReadFile(s.AddressFile())
	if errors.Is(err, os.ErrNotExist) {
		return "", job.Errorf(job.Unavailable, "request", "",
			"no server works on %s (name one with --server URL or --data DIR)", s.Data)
	}
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return "", Usagef("%s is not a directory: name a data directory with --data DIR, or a server with --server URL",
			s.Data)
	case errors.Is(err, os.ErrPermission):
		return "", Usagef("%w (run the command as the user of the server, or name the server with --server URL)", err)
	case err != nil:
		return "", err
	}
	return strings.TrimSpace(string(text)), nil
}
