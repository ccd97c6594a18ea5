package secretfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/internal/secretfile"
)

func TestRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "key")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := secretfile.Read(name); !os.IsNotExist(err) {
		t.Errorf("got %v", err)
	}
	write(" hush\r\n", 0o600)
	if text, err := secretfile.Read(name); text != " hush" || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o602} {
		write("hush", mode)
		if _, err := secretfile.Read(name); err == nil || !strings.Contains(err.Error(), "chmod 600") ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("%#o: got %v", mode, err)
		}
	}
	write(" \n", 0o400)
	if _, err := secretfile.Read(name); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("got %v", err)
	}
}
