package compute

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// TestPlainShowsNoAddresses: what users read of errors has no paths of the server, no addresses, and of a callback's
// URL nothing behind its host.
func TestPlainShowsNoAddresses(t *testing.T) {
	for _, err := range []error{
		&fs.PathError{Op: "open", Path: "/srv/SECRET/x", Err: os.ErrPermission},
		fmt.Errorf("%w: %w", ErrNotSent, &fs.PathError{Op: "mkdir", Path: "/srv/SECRET/a", Err: os.ErrPermission}),
		errors.New("dial tcp 10.1.2.3:80: permission denied"),
	} {
		if text := plain(err); strings.Contains(text, "SECRET") || strings.Contains(text, "10.1.2.3") ||
			!strings.Contains(text, "permission denied") {
			t.Errorf("%v: %s", err, text)
		}
	}
	s := &Service{Name: "x", Callbacks: &Callbacks{Hosts: []string{"example.org"}}}
	for _, target := range []string{"http://example.org:22/SECRET?x=SECRET", "ftp://u:pw@example.org/SECRET",
		"http://example.org/%zzSECRET", "http://other.example.org/SECRET"} {
		if err := s.CheckCallback(target); err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v", target, err)
		}
	}
}
