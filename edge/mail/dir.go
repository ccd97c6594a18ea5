package mail

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stagepost/stagepost/internal/durable"
)

// Dir returns a sender that writes each message as one .eml file into an existing directory: for installations
// without a mail server, and for tests. The name is derived from the Message-ID, so a repeated send changes nothing.
// The file begins with the Bcc line, which SMTP would not transmit; a file appears complete or not at all.
func Dir(path string) Sender { return dir(path) }

type dir string

func (d dir) Send(ctx context.Context, m Message) error {
	if err := m.Validate(); err != nil {
		return &Error{Err: err}
	}
	if err := ctx.Err(); err != nil {
		return &Error{Temp: true, Err: context.Cause(ctx)}
	}
	name := filepath.Join(string(d), fileName(m.MessageID))
	if _, err := os.Lstat(name); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return &Error{Temp: true, Err: err}
	}
	if err := d.write(name, &m); err != nil {
		return &Error{Temp: true, Err: err}
	}
	return nil
}

func (d dir) write(name string, m *Message) error {
	msg, err := m.compose()
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return err
	}
	defer root.Close()
	return durable.File{Root: root, Name: filepath.Base(name),
		Temporary: ".unfinished-" + rand.Text()}.Write(func(f *os.File) error {
		if len(m.Bcc) > 0 {
			bcc, err := addresses(m.Bcc)
			if err != nil {
				return err
			}
			for i, a := range bcc {
				lead := map[bool]string{true: "Bcc: ", false: ",\r\n "}[i == 0]
				if _, err := io.WriteString(f, lead+a.String()); err != nil {
					return err
				}
			}
			if _, err := io.WriteString(f, "\r\n"); err != nil {
				return err
			}
		}
		_, err := msg.WriteTo(f)
		return err
	})
}

// fileName keeps the readable characters of an id and adds a digest of all of it, so that two ids never share a file.
func fileName(id string) string {
	safe := strings.Map(func(r rune) rune {
		if r|0x20 >= 'a' && r|0x20 <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("@.-_", r) {
			return r
		}
		return '_'
	}, id)
	sum := sha256.Sum256([]byte(id))
	return strings.TrimLeft(safe[:min(len(safe), 100)], ".-") + "-" + hex.EncodeToString(sum[:8]) + ".eml"
}
