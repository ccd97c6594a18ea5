package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stagepost/stagepost/cli"
)

// literalZeros are the settings whose 0 can only mean the number.
var literalZeros = []string{"compute.local"}

// TestZeroHasOneMeaning: no number among the settings takes a 0, which would be the default here, no limit there and
// nothing elsewhere. The refusal names the word to write instead, the word is taken, and the setting prints it. A
// setting that a user adds is in it by itself.
func TestZeroHasOneMeaning(t *testing.T) {
	words, numbers := 0, 0
	for _, one := range newSettings().All() {
		if slices.Contains([]string{"string", "bool"}, one.Value.Type().Name()) {
			if one.Zero != "" {
				t.Errorf("%s: a word for 0 is for numbers alone", one.Name)
			}
			continue
		}
		numbers++
		for _, text := range []string{"0", "0s", "0B"} {
			err := one.Set(text)
			if slices.Contains(literalZeros, one.Name) {
				if text == "0" && (err != nil || one.String() != "0") {
					t.Errorf("%s: %s: got %q, %v", one.Name, text, one.String(), err)
				}
				continue
			}
			if err == nil || text == "0" && (!strings.Contains(err.Error(), "more than 0") ||
				!strings.Contains(err.Error(), one.Zero)) {
				t.Errorf("%s: %s: got %v, want a refusal with the word %q", one.Name, text, err, one.Zero)
			}
		}
		if err := one.Set("-1"); err == nil {
			t.Errorf("%s: -1 was taken", one.Name)
		}
		switch one.Zero {
		case "off", "unlimited":
			words++
			if err := one.Set(one.Zero); err != nil || !one.Value.IsZero() || one.String() != one.Zero {
				t.Errorf("%s: %s: got %q, %v", one.Name, one.Zero, one.String(), err)
			}
			if !strings.Contains(one.Doc, one.Zero+":") {
				t.Errorf("%s: its text does not explain %s", one.Name, one.Zero)
			}
		case "":
			if err := one.Set("off"); err == nil {
				t.Errorf("%s: off was taken", one.Name)
			}
		}
	}
	if words < 10 || numbers < 30 { // the settings were checked
		t.Errorf("%d settings are numbers, %d have a word for 0", numbers, words)
	}
}

// TestZeroOfFlags is the same for the flags of times, of all commands.
func TestZeroOfFlags(t *testing.T) {
	root := newCall(nil, io.Discard, io.Discard).Root()
	seen := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		check := func(f *pflag.Flag) {
			d, ok := f.Value.(*cli.Duration)
			if !ok {
				return
			}
			seen++
			for text, want := range map[string]string{"0": d.Zero, "0s": d.Zero, "-1s": "negative"} {
				if err := f.Value.Set(text); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s --%s %s: got %v", cmd.CommandPath(), f.Name, text, err)
				}
			}
			if err := f.Value.Set(d.Zero); err != nil || *d.To != 0 || d.String() != d.Zero {
				t.Errorf("%s --%s %s: got %s, %v", cmd.CommandPath(), f.Name, d.Zero, d, err)
			}
		}
		cmd.LocalNonPersistentFlags().VisitAll(check)
		cmd.PersistentFlags().VisitAll(check)
		for _, below := range cmd.Commands() {
			walk(below)
		}
	}
	walk(root)
	if seen < 4 {
		t.Errorf("only %d flags of a time were found", seen)
	}
}
