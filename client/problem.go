package client

import (
	"errors"
)

// ProblemOf gives what the server said of an error, or nil if it did not come from there.
func ProblemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	return nil
}
