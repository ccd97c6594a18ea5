package premis

import (
	"bytes"
	"encoding/json"
	"io"
)

// WriteJSON writes a document as JSON, with two spaces a level. The same document gives the same bytes. One entity at a
// time is in memory as text.
func (d *Document) WriteJSON(w io.Writer) error {
	l := &lists{w: w}
	l.e = json.NewEncoder(&l.one)
	l.e.SetEscapeHTML(false)
	l.e.SetIndent("    ", "  ")
	list(l, "objects", d.Objects)
	list(l, "events", d.Events)
	list(l, "agents", d.Agents)
	if l.some {
		l.text("\n}\n")
	} else {
		l.text("{}\n")
	}
	return l.err
}

// lists writes an object of lists. After an error it writes nothing.
type lists struct {
	w    io.Writer
	e    *json.Encoder // to one
	one  bytes.Buffer
	some bool // a list was written
	err  error
}

func (l *lists) text(s string) {
	if l.err == nil {
		_, l.err = io.WriteString(l.w, s)
	}
}

// list writes a list. One that is empty is left out.
func list[T any](l *lists, name string, all []T) {
	if len(all) == 0 {
		return
	}
	before := "{\n  \""
	if l.some {
		before = ",\n  \""
	}
	l.some = true
	l.text(before + name + "\": [")
	for i := range all {
		if l.err != nil {
			return
		}
		l.one.Reset()
		if l.err = l.e.Encode(&all[i]); l.err != nil {
			return
		}
		if i > 0 {
			l.text(",")
		}
		l.text("\n    ")
		if l.err == nil {
			_, l.err = l.w.Write(bytes.TrimSuffix(l.one.Bytes(), []byte("\n")))
		}
	}
	l.text("\n  ]")
}
