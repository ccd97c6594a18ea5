package engine_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails if a goroutine is left over. Inside synctest bubbles a goroutine that never ends is an error by
// itself.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
