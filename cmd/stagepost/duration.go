package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/stagepost/stagepost/quantity"
)

// duration is a flag's time, written as in settings: 90s, 2h, 7d.
type duration struct {
	to   *time.Duration
	zero string // the word for 0, which is refused as a number
}

// durationFlag adds a flag of a time. Package pflag's own reads no days.
func durationFlag(flags *pflag.FlagSet, to *time.Duration, name string, value time.Duration, zero, usage string) {
	*to = value
	flags.Var(&duration{to, zero}, name, usage)
}

// String is part of pflag.Value.
func (d *duration) String() string {
	if d.to == nil || *d.to == 0 { // pflag also asks the zero value
		return d.zero
	}
	return quantity.FormatDuration(*d.to)
}

// Set is part of pflag.Value.
func (d *duration) Set(text string) error {
	if text == d.zero {
		*d.to = 0
		return nil
	}
	t, err := quantity.ParseDuration(text)
	if err == nil && t == 0 {
		err = fmt.Errorf("it must be more than 0, or %s", d.zero)
	}
	if err == nil {
		*d.to = t
	}
	return err
}

// Type is part of pflag.Value.
func (d *duration) Type() string { return "duration" }
