// Package eventstream reads streams of server-sent events (HTML standard, section 9.2).
package eventstream

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Most bounds a message, in bytes.
const Most = 16 << 20

// ErrTooLong is the error of a message that exceeds [Most].
var ErrTooLong = fmt.Errorf("a message of the stream exceeds %d bytes", Most)

// Read calls each for every message of a stream, with the name of its event and its data. It returns nil at the end of
// the stream, the error of each, the error of reading, or [ErrTooLong].
func Read(r io.Reader, each func(name, data string) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, Most)
	name, data := "", []byte{}
	for len(data) <= Most && lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ":")
		switch {
		case field == "event":
			name = strings.TrimPrefix(value, " ")
		case field == "data":
			data = append(append(data, '\n'), strings.TrimPrefix(value, " ")...)
		case lines.Text() == "":
			if len(data) > 0 {
				if err := each(name, string(data[1:])); err != nil {
					return err
				}
			}
			name, data = "", data[:0]
		}
	}
	if len(data) > Most || errors.Is(lines.Err(), bufio.ErrTooLong) {
		return ErrTooLong
	}
	return lines.Err()
}
