package premis

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"testing"
	"time"
)

// TestJSON compares what is written entity by entity with the encoding of the whole document.
func TestJSON(t *testing.T) {
	object := Object{ID: ID{"local", "a<b&c"}, Category: "file", Size: 7, Digests: []Digest{{"SHA-256", "00"}}}
	event := Event{ID: ID{"local", "e"}, Type: "capture", Time: time.Unix(1, 0).UTC(), Objects: []Link{{ID: object.ID}}}
	for _, d := range []Document{
		{}, {Objects: []Object{object}}, {Objects: []Object{object, {}, object}, Events: []Event{event, event}},
		{Agents: []Agent{{Name: "A"}}}, {Objects: []Object{object}, Agents: []Agent{{}, {}}},
	} {
		var want, got bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := errors.Join(e.Encode(&d), d.WriteJSON(&got)); err != nil {
			t.Fatal(err)
		}
		if got.String() != want.String() {
			t.Errorf("got\n%swant\n%s", &got, &want)
		}
		for n := range got.Len() {
			if n%5 == 0 {
				if err := d.WriteJSON(&cut{n}); !errors.Is(err, fs.ErrClosed) {
					t.Fatalf("after %d bytes: %v", n, err)
				}
			}
		}
	}
}

// cut is a writer that fails after a number of bytes.
type cut struct{ left int }

func (c *cut) Write(b []byte) (int, error) {
	if c.left -= len(b); c.left < 0 {
		return 0, fs.ErrClosed
	}
	return len(b), nil
}
