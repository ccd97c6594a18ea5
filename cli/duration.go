package cli

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/stagepost/stagepost/quantity"
)

// Duration is a flag's time, written as in settings: 90s, 2h, 7d.
type Duration struct {
	To   *time.Duration
	Zero string // the word for 0, which is refused as a number
}

// DurationFlag adds a flag of a time. Package pflag's own reads no days.
func DurationFlag(flags *pflag.FlagSet, to *time.Duration, name string, value time.Duration, zero, usage string) {
	*to = value
	flags.Var(&Duration{to, zero}, name, usage)
}

// String is part of pflag.Value.
func (d *Duration) String() string {
	if d.To == nil || *d.To == 0 { // pflag also asks the zero value
		return d.Zero
	}
	return quantity.FormatDuration(*d.To)
}

// Set is part of pflag.Value.
func (d *Duration) Set(text string) error {
	if text == d.Zero {
		*d.To = 0
		return nil
	}
	t, err := quantity.ParseDuration(text)
	if err == nil && t == 0 {
		err = fmt.Errorf("it must be more than 0, or %s", d.Zero)
	}
	if err == nil {
		*d.To = t
	}
	return err
}

// Type is part of pflag.Value.
func (d *Duration) Type() string { return "duration" }
