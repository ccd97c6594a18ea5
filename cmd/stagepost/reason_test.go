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
		"list", "jobs", "results", "show", "why", "history", "logs", "watch", "report", "locks", "stuck", "queue", "orphans", "storage", "files", "manifest", "metadata", "bag",
		"audit", "profile show", "profile list", "profile check", "profile schema", "hooks", "hooks show", "outbox", "lifecycle", "health", "fixity status", "verify", "config", "version", "docs", "completion", "help",
		"token list", "flow list", "flow show", "flow lint", "flow draw", "agent doctor",
	},
	"they make new work, or a copy":             {"submit", "access", "fetch", "run", "flow run", "import", "demo", "demo site"},
	"they run a program":                        {"serve", "agent"},
	"a new data directory has no list to enter": {"restore"},
}

// TestCommandsTakeReasons: every command that changes something takes --note. A new one must take it or be listed with why not.
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
		if !note && !listed[name] && !group && !cmd.Hidden && !slices.ContainsFunc([]string{"docs", "completion", "help", "lifecycle", "config", "manifest"}, func(of string) bool { return strings.HasPrefix(name, of) }) {
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
