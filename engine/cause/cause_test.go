package cause_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"syscall"
	"testing"

	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/job"
)

// decided is an error that states whether it is temporary.
type decided struct {
	error
	temporary bool
}

func (d decided) Unwrap() error   { return d.error }
func (d decided) Temporary() bool { return d.temporary }

// TestTemporary: the method of an error decides about an end that came early, unless it is that of a network error.
func TestTemporary(t *testing.T) {
	cut := fmt.Errorf("member a: %w", io.ErrUnexpectedEOF)
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"archive that is cut off":       {fmt.Errorf("unpack: %w", decided{cut, false}), false},
		"transfer that is repeated":     {decided{cut, true}, true},
		"end without a method":          {cut, true},
		"end in a refusal":              {job.Errorf(job.Invalid, "read", "", "%w", cut), true},
		"interrupted request":           {&url.Error{Op: "Get", URL: "http://x", Err: io.ErrUnexpectedEOF}, true},
		"refused request":               {&url.Error{Op: "Get", URL: "http://x", Err: errors.New("refused")}, false},
		"interrupted connection":        {&net.OpError{Op: "read", Err: io.ErrUnexpectedEOF}, true},
		"full disk in a final error":    {decided{syscall.ENOSPC, false}, true},
		"deadline in a final error":     {decided{context.DeadlineExceeded, false}, true},
		"interruption in a final error": {decided{context.Canceled, false}, true},
		"refusal":                       {job.Errorf(job.Invalid, "read", "", "no"), false},
		"unknown":                       {errors.New("unknown"), true},
	} {
		if got := cause.Temporary(c.err); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
