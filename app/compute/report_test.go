package compute

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// TestReportsAreBounded: of the texts that an executor reports, whatever their size, the record keeps a bounded part.
// Short texts stay as they are.
func TestReportsAreBounded(t *testing.T) {
	for _, size := range []int{20, 1 << 20} {
		text := strings.Repeat("s", size)
		d := Data{}
		d.take(&Notice{Standing: Standing(text), Remote: text, Instance: text, Reason: text, Place: text, SHA256: text,
			Ending: &Ending{Signal: text, Cause: text, Sentence: text, Sandbox: text, Note: text}}, time.Now())
		kept, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		whole := strings.Count(string(kept), `"`+text+`"`)
		if size < mostReport && whole < 11 || size > mostReport && (whole > 0 || len(kept) > 13*(mostReport+3)+1000) {
			t.Errorf("texts of %d bytes: %d are whole, %d bytes are kept", size, whole, len(kept))
		}
	}
}
