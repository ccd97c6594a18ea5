package noid

import (
	"fmt"
	"regexp"
	"strings"
)

// Pattern matches an ARK (draft-kunze-ark, section 2) in its old form ark:/NAAN/name and its new form ark:NAAN/name.
// A NAAN has five or more digits of Alphabet.
var Pattern = regexp.MustCompile(
	`^(?i:ark):/?([0-9bcdfghjkmnpqrstvwxz]{5,16})/((?:[0-9A-Za-z=~*+@_$./-]|%[0-9A-Fa-f]{2})+)$`)

// ARK is an archival resource key in normal form.
type ARK struct {
	NAAN string // name assigning authority number
	Name string // assigned name with its qualifiers (/part, .variant)
}

const maxARK = 2048

// ParseARK parses an ARK in either form, also after the address of a resolver (https://n2t.net/ark:...), and
// normalizes it. It removes hyphens, slashes and full stops at the end, and doubled slashes. The hex digits of
// percent signs become upper case. Letters keep their case, which is significant.
func ParseARK(s string) (ARK, error) {
	if len(s) > maxARK {
		return ARK{}, fmt.Errorf("%w: %d characters", ErrARK, len(s))
	}
	text := strings.TrimSpace(s)
	if lower := strings.ToLower(text); strings.HasPrefix(lower, "http://") || strings.HasPrefix(lower, "https://") {
		if at := strings.Index(lower, "/ark:"); at > 0 && at+1 < len(text) {
			text = text[at+1:]
		}
	}
	m := Pattern.FindStringSubmatch(text)
	if m == nil {
		return ARK{}, fmt.Errorf("%w %q: want ark:/NAAN/name", ErrARK, s)
	}
	name := normalName(m[2])
	if name == "" || name[0] == '.' {
		return ARK{}, fmt.Errorf("%w %q: no name", ErrARK, s)
	}
	return ARK{NAAN: m[1], Name: name}, nil
}

func normalName(name string) string {
	var parts []string
	for part := range strings.SplitSeq(strings.ReplaceAll(name, "-", ""), "/") {
		if part != "" {
			parts = append(parts, part)
		}
	}
	b := []byte(strings.TrimRight(strings.Join(parts, "/"), "./"))
	for i := range b {
		if b[i] == '%' {
			copy(b[i+1:], strings.ToUpper(string(b[i+1:i+3])))
		}
	}
	return string(b)
}

// String returns the form with a slash, ark:/99999/fk4abc, which Merritt and older systems use.
func (a ARK) String() string { return "ark:/" + a.Path() }

// Modern returns the form without a slash, ark:99999/fk4abc.
func (a ARK) Modern() string { return "ark:" + a.Path() }

// Path returns NAAN/name, over which check characters are computed.
func (a ARK) Path() string { return a.NAAN + "/" + a.Name }

// Base returns the ARK without qualifiers, as it was minted.
func (a ARK) Base() ARK {
	if at := strings.IndexAny(a.Name, "/."); at >= 0 {
		a.Name = a.Name[:at]
	}
	return a
}

// Checked reports whether the minted name ends with its check character.
func (a ARK) Checked() bool { return Check(a.Base().Path()) }
