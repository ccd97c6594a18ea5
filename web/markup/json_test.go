package markup

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestLargeTexts: a page shows the beginning of a large spec. The control is a small one.
func TestLargeTexts(t *testing.T) {
	if got := JSON([]byte(`{"a":1}`)); got != "{\n  \"a\": 1\n}" {
		t.Errorf("control: %q", got)
	}
	large := []byte(`"` + strings.Repeat("ä", mostText) + `"`)
	got := JSON(large)
	if len(got) > mostText+200 || !utf8.ValidString(got) ||
		!strings.HasSuffix(got, fmt.Sprintf("ä…\n(%d bytes in all: the API has the rest)", len(large))) {
		t.Errorf("%d bytes, which end with %q", len(got), got[len(got)-80:])
	}
}
