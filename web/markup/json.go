package markup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// mostText is how many bytes of a spec, or of data, a page shows.
const mostText = 64 << 10

// JSON returns a spec, or data, for a page, with a line for each member; "" for none. Of a large text it has the
// beginning.
func JSON(text json.RawMessage) string {
	if len(text) <= mostText {
		return pretty(text)
	}
	return string(bytes.ToValidUTF8(text[:mostText], nil)) + fmt.Sprintf("…\n(%d bytes in all: the API has the rest)",
		len(text))
}

// pretty writes JSON with a line for each member; "" for none.
func pretty(text json.RawMessage) string {
	if len(text) == 0 || string(text) == "null" || string(text) == "{}" {
		return ""
	}
	var v any
	if json.Unmarshal(text, &v) != nil {
		return string(text)
	}
	var b strings.Builder
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if out.Encode(v) != nil {
		return string(text)
	}
	return strings.TrimSpace(b.String())
}
