package draw

import (
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// Options state what a picture of a flow shows. The zero Options work.
type Options struct {
	State lifecycle.State // of the flow; empty: not shown
	Now   time.Time       // for what has not ended; zero: its time is not shown
	// of like items that are drawn one by one, the failed and active first; the others become one box. Defaults to 12;
	// negative: all are drawn
	Most int
	ID   string // beginning of the ids in an SVG, so that several can stand in one page. Defaults to "flow"
}

func (o Options) most() int {
	if o.Most == 0 {
		return 12
	}
	return o.Most
}

// id gives the beginning of ids, free of what has a meaning in markup.
func (o Options) id() string { return ident(o.ID) }

func ident(id string) string {
	safe := []byte{}
	for _, c := range []byte(id) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			safe = append(safe, c)
		}
	}
	if len(safe) == 0 {
		return "flow"
	}
	return string(safe)
}
