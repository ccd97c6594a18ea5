// Package secretfile reads files that hold a password, a token or a key.
package secretfile

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// most is how many bytes of a file are read.
const most = 64 << 10

// Read returns the text of a file without the newlines at its end. A regular file that others than its owner may
// read is refused, and so is one without text. No error contains the text.
func Read(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		return "", err
	}
	if stat.Mode().IsRegular() && stat.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s has the mode %#o: only its owner may read it (chmod 600)", name, stat.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return "", err
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if strings.TrimSpace(secret) == "" {
		return "", fmt.Errorf("%s is empty", name)
	}
	return secret, nil
}
