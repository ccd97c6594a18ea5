//go:build !linux && !darwin

package process

import (
	"context"
	"errors"
)

// Local runs commands where there are process groups; here it refuses.
type Local struct {
	Temp string
}

// Run is part of Commander.
func (Local) Run(context.Context, *Command) (*Output, error) {
	return nil, errors.New("commands cannot be run on this system: it has no process groups")
}

// Tidy does nothing: nothing is left of commands where there are none.
func (Local) Tidy() error { return nil }
