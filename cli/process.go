package cli

import (
	"cmp"
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// UntilSignal returns a context that ends with the first SIGINT or SIGTERM. A second one ends the program.
func UntilSignal(ctx context.Context) (until context.Context, stop context.CancelFunc) {
	until, stop = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(until, stop)
	return until, stop
}

// TempDir makes a directory for the working files of this process below parent; empty: below that of the system. The
// returned function removes the directory.
func TempDir(parent, pattern string) (dir string, remove func() error, err error) {
	parent = cmp.Or(parent, os.TempDir())
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", nil, err
	}
	if dir, err = os.MkdirTemp(filepath.Clean(parent), pattern); err != nil {
		return "", nil, err
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}
