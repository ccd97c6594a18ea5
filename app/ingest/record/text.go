package record

import (
	"fmt"
	"strings"
	"unicode"
)

// MaxText bounds each text of a submission, in bytes.
const MaxText = 4096

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
