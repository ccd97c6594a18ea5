package bagit

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Field is one element of bag-info.txt, such as Source-Organization (RFC 8493 section 2.2.2).
type Field struct{ Label, Value string }

const oxumLabel = "Payload-Oxum"

// writeInfo writes the elements that have a value, each on one line.
func writeInfo(w io.Writer, fields []Field) error {
	for _, f := range fields {
		value := strings.Join(strings.Fields(f.Value), " ") // a line end would begin another element
		if value == "" {
			continue
		}
		if f.Label == "" || strings.ContainsAny(f.Label, ":\r\n") || strings.TrimSpace(f.Label) != f.Label {
			return fmt.Errorf("%w: the label %.80q", ErrLine, f.Label)
		}
		if _, err := fmt.Fprintf(w, "%s: %s\n", f.Label, value); err != nil {
			return err
		}
	}
	return nil
}

// readInfo reads bag-info.txt. A line that begins with a space continues the line before it.
func readInfo(r io.Reader) (fields []Field, err error) {
	for n, text := range lines(r) {
		label, value, ok := strings.Cut(text, ":")
		switch {
		case strings.TrimSpace(text) == "" && text != tooLong:
		case strings.HasPrefix(text, " ") || strings.HasPrefix(text, "\t"):
			if len(fields) == 0 {
				return fields, fmt.Errorf("%w %d: it continues no line", ErrLine, n)
			}
			last := &fields[len(fields)-1]
			last.Value += " " + strings.TrimSpace(text)
		case !ok || text == tooLong || strings.TrimSpace(label) == "":
			return fields, fmt.Errorf("%w %d: %.140q is not LABEL: VALUE", ErrLine, n, text)
		default:
			fields = append(fields, Field{strings.TrimSpace(label), strings.TrimSpace(value)})
		}
	}
	return fields, nil
}

// oxum is the value of Payload-Oxum: bytes and files of the payload.
type oxum struct{ bytes, files int64 }

func (o oxum) String() string { return fmt.Sprintf("%d.%d", o.bytes, o.files) }

func parseOxum(text string) (oxum, error) {
	b, f, ok := strings.Cut(text, ".")
	bytes, err1 := strconv.ParseInt(b, 10, 64)
	files, err2 := strconv.ParseInt(f, 10, 64)
	if !ok || err1 != nil || err2 != nil || bytes < 0 || files < 0 {
		return oxum{}, fmt.Errorf("%.80q is not BYTES.FILES", text)
	}
	return oxum{bytes, files}, nil
}
