//go:build !race

package agent

// watched reports whether the race detector is on, which needs memory of its own.
const watched = false
