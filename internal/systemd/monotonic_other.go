//go:build !unix

package systemd

// Monotonic gives nothing here: there is no service manager that asks.
func Monotonic() (usec int64, ok bool) { return 0, false }
