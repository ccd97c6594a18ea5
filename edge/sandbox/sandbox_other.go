//go:build !linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
)

// Sandbox is made by Open, which works on Linux only.
type Sandbox struct{}

// Open returns an error: there is no sandbox here.
func Open(context.Context, Options) (*Sandbox, error) {
	return nil, fmt.Errorf("a sandbox needs Linux: %w", errors.ErrUnsupported)
}

// Tier is never called.
func (s *Sandbox) Tier() string { return None }

// ShowsAll is never called.
func (s *Sandbox) ShowsAll() bool { return true }

// Hide is never called.
func (s *Sandbox) Hide() error { return errors.ErrUnsupported }

// Checks is never called.
func (s *Sandbox) Checks() []Check { return nil }

// Run is never called.
func (s *Sandbox) Run(context.Context, *Command) (Ending, error) {
	return Ending{}, errors.ErrUnsupported
}

// Close is never called.
func (s *Sandbox) Close() error { return nil }

// Init does nothing.
func Init() {}
