package archivecli

import (
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/stagepost/stagepost/app/archive/sign"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/format/rfc3161"
)

// TestDamageOfTimeStamps: what is wrong with a time stamp has the exit code of damage and a next step. The control is
// a file that cannot be read: nothing is known of it, so it is no damage.
func TestDamageOfTimeStamps(t *testing.T) {
	part := Part(&cli.Call{})
	for _, c := range []struct {
		err  error
		hint string // a part of it; "": it is no damage
	}{
		{sign.ErrNone, "archive retrieve"},
		{sign.ErrExpired, "archive retrieve"},
		{rfc3161.ErrDigest, "archive retrieve"},
		{rfc3161.ErrChain, "--ca"},
		{&fs.PathError{Op: "open", Path: "exam.tsq", Err: syscall.ENOENT}, "archive retrieve"},
		{&fs.PathError{Op: "read", Path: "exam.tsr", Err: syscall.EIO}, ""},
	} {
		err := damageOf(fmt.Errorf("time stamp 1 of exam: %w", c.err))
		exit, known := part.Code(err)
		if known != (c.hint != "") || known && exit != cli.ExitFailed {
			t.Errorf("%v: exit code %d, %t", err, exit, known)
		}
		if hint := part.Hint(err, exit); !strings.Contains(hint, c.hint) || (hint == "") != (c.hint == "") {
			t.Errorf("%v: the hint is %q", err, hint)
		}
	}
	if err := damageOf(nil); err != nil {
		t.Errorf("a good time stamp: %v", err)
	}
}
