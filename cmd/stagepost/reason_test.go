package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// noteless are the commands without --note, with groups of commands by their name: most only read.
var noteless = map[string][]string{
	"they only read": {
		"list", "ingest list", "ingest objects", "compute jobs", "compute services", "compute agents",
		"compute results", "show", "why", "history", "logs", "watch", "ingest report", "ingest locks", "stuck",
		"ingest queue", "ingest orphans", "ingest storage", "ingest files", "ingest manifest", "ingest metadata",
		"ingest bag",
		"admin audit", "ingest profile show", "ingest profile list", "ingest profile check", "ingest profile schema",
		"ingest hooks", "ingest hooks show", "admin outbox", "lifecycle", "admin health", "fixity status",
		"admin verify", "admin checkpoint show", "admin config", "version", "docs", "completion", "help",
		"admin token list", "admin user list", "admin ca list", "admin audit export",
		"workers", "flow list", "flow show", "flow lint", "flow draw", "compute agent doctor",
		"archive deletions", "archive hooks show", "archive list", "archive overview", "archive plan", "archive premis",
		"archive schedules show", "archive show",
		"archive status", "archive verify", "timestamp verify", "admin export", "fixity report", "verify",
		"zk check", "zk dump", "zk import", "zk orphans",
	},
	"they make new work, or a copy": {"submit", "ingest access", "ingest fetch", "run", "flow run",
		"archive retrieve",
		"compute import", "demo", "demo site", "demo campus"},
	"they run a program":                        {"serve", "work", "compute agent", "archive pdf-worker"},
	"a new data directory has no list to enter": {"admin restore", "admin ca init"},
	"the lists of both stores must be equal":    {"migrate"},
	"a machine enters itself, by a token":       {"work enrol"},
}

// TestCommandsTakeReasons: every command that changes something takes --note. A new one must take it or be listed with
// why not.
func TestCommandsTakeReasons(t *testing.T) {
	listed := map[string]bool{}
	for _, names := range noteless {
		for _, name := range names {
			listed[name] = true
		}
	}
	seen := []string{}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		name := strings.TrimPrefix(cmd.CommandPath(), "stagepost ")
		note := cmd.Flags().Lookup("note") != nil
		group := cmd.HasSubCommands() && (cmd.Args == nil || cmd.Args(cmd, []string{"x"}) != nil)
		if !note && !listed[name] && !group && !cmd.Hidden &&
			!slices.ContainsFunc([]string{"docs", "completion", "help", "lifecycle", "admin config", "ingest manifest"},
				func(of string) bool { return strings.HasPrefix(name, of) }) {
			seen = append(seen, name)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newCall(nil, new(bytes.Buffer), new(bytes.Buffer)).Root())
	if len(seen) > 0 {
		t.Errorf("these take no --note, and are not listed with why not: %q", seen)
	}
}
