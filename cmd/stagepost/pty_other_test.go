//go:build !linux

package main

import (
	"errors"
	"os"
)

// openTerminal is for Linux: elsewhere documents are followed in pipes.
func openTerminal() (watcher, program *os.File, err error) { return nil, nil, errors.ErrUnsupported }
