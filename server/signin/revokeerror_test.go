package signin

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/token"
)

// TestRevokeErrors: a server that may not change its file of tokens names the command that does. Another error, which
// is the control, is returned as it is.
func TestRevokeErrors(t *testing.T) {
	for _, cause := range []error{fs.ErrPermission, syscall.EROFS, syscall.EACCES} {
		err := revokeError(fmt.Errorf("open: %w", cause), "/etc/tokens", "0123456789abcdef")
		if job.KindOf(err) != job.Refused || !strings.Contains(err.Error(),
			"stagepost admin token revoke /etc/tokens 0123456789abcdef") {
			t.Errorf("%v: got %v", cause, err)
		}
	}
	if err := revokeError(fmt.Errorf("%w: gone", token.ErrUnknown), "f", "0123"); job.KindOf(err) != job.NotFound {
		t.Errorf("a token that was revoked meanwhile: got %v", err)
	}
	other := errors.New("no space")
	if err := revokeError(other, "f", "0123"); !errors.Is(err, other) {
		t.Errorf("control: got %v", err)
	}
}
