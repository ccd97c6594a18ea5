package record

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// MaxText bounds each text of a submission, in bytes.
const MaxText = 4096

// OneLine makes one line of a text of several: of one in a file, or in a text area. Blanks around each are dropped.
// Other control characters stay.
func OneLine(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return unicode.IsControl(r) && unicode.IsSpace(r) })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return line == "" }), " ")
}

// CheckText refuses texts that would be something else where they are written: in a header, a log line or a metadata
// file.
func CheckText(text string) error {
	if len(text) > MaxText {
		return fmt.Errorf("more than %d bytes", MaxText)
	}
	if strings.ToValidUTF8(text, "") != text {
		return fmt.Errorf("not UTF-8")
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("a control character or line end")
	}
	return nil
}
