package main

import (
	"io"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestDurationFlags: each flag of a time, of each command, reads days and weeks as settings do.
func TestDurationFlags(t *testing.T) {
	root := newCall(nil, io.Discard, io.Discard).Root()
	seen := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		check := func(f *pflag.Flag) {
			if f.Value.Type() != "duration" {
				return
			}
			seen++
			for _, text := range []string{"7d", "1w", "90s", "1d12h"} {
				if err := f.Value.Set(text); err != nil {
					t.Errorf("%s --%s %s: %v", cmd.CommandPath(), f.Name, text, err)
				}
			}
		}
		cmd.LocalNonPersistentFlags().VisitAll(check)
		cmd.PersistentFlags().VisitAll(check)
		for _, below := range cmd.Commands() {
			walk(below)
		}
	}
	walk(root)
	if seen < 10 {
		t.Errorf("only %d flags of a time were found", seen)
	}
	agent, _, err := root.Find([]string{"compute", "agent"})
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.ParseFlags([]string{"--keep", "7d"}); err != nil {
		t.Fatal(err)
	}
	if got := agent.Flags().Lookup("keep").Value.String(); got != "7d" {
		t.Errorf("got %s", got)
	}
}
