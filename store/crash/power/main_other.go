//go:build !linux

package power

// Main does nothing here: file systems are served on Linux only.
func Main() {}
