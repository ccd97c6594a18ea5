package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/stagepost/stagepost/quantity"
)

// duration is a flag's time, written as in settings: 90s, 2h, 7d.
type duration time.Duration

// durationFlag adds a flag of a time. Package pflag's own reads no days.
func durationFlag(flags *pflag.FlagSet, to *time.Duration, name string, value time.Duration, usage string) {
	*to = value
	flags.Var((*duration)(to), name, usage)
}

// String is part of pflag.Value.
func (d *duration) String() string { return quantity.FormatDuration(time.Duration(*d)) }

// Set is part of pflag.Value.
func (d *duration) Set(text string) error {
	t, err := quantity.ParseDuration(text)
	if err == nil {
		*d = duration(t)
	}
	return err
}

// Type is part of pflag.Value.
func (d *duration) Type() string { return "duration" }
