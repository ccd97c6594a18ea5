//go:build !linux && !darwin

package ocfl

import (
	"errors"
	"fmt"
)

// exchangeAt exchanges two directories in one step, which this system cannot.
func exchangeAt(int, string, int, string) error {
	return fmt.Errorf("this system cannot exchange two directories: %w", errors.ErrUnsupported)
}
