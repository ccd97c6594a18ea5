package draw_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/draw"
)

// tangle is a graph flow no two items of which are alike, and whose links pass each other over many ranks.
func tangle(n int) *flow.Outline {
	o := &flow.Outline{Kind: flow.KindFlow, Name: "tangle", Pattern: flow.PatternGraph}
	third := n / 3
	for i := range 3 * third {
		o.Items = append(o.Items, &flow.Outline{Kind: flow.KindTask, Name: fmt.Sprintf("t%d", i)})
	}
	for i := range third { // a chain, what leaves it, and what waits for that and for the chain's end
		if i > 0 {
			o.Links = append(o.Links, flow.OutlinedLink{From: i - 1, To: i})
		}
		o.Links = append(o.Links, flow.OutlinedLink{From: i, To: third + i},
			flow.OutlinedLink{From: third + i, To: 2*third + i}, flow.OutlinedLink{From: third - 1, To: 2*third + i})
	}
	return o
}

// TestTangle: a picture of a flow with many items of which no two are alike does not grow with the square of them, and
// shows what failed; the control draws all.
func TestTangle(t *testing.T) {
	o := tangle(30_000)
	records := []flow.Record{{Name: "t29998", Kind: flow.KindTask, State: flow.FailureState}}
	for name, size := range map[string]int{
		"svg":     len(drawn(t, draw.SVG, o, records, draw.Options{})),
		"dot":     len(drawn(t, draw.DOT, o, records, draw.Options{})),
		"mermaid": len(drawn(t, draw.Mermaid, o, records, draw.Options{})),
	} {
		if size > 8<<20 {
			t.Errorf("%s has %d bytes", name, size)
		}
	}
	svg := drawn(t, draw.SVG, o, records, draw.Options{})
	for _, part := range []string{"29000 more", "t29998", "1 FAILURE"} {
		if !strings.Contains(svg, part) {
			t.Errorf("%q is missing", part)
		}
	}
	many := &flow.Outline{Kind: flow.KindFlow, Name: "many", Pattern: flow.PatternUnordered}
	for range 12 {
		many.Items = append(many.Items, tangle(999))
	}
	if size := len(drawn(t, draw.SVG, many, nil, draw.Options{})); size > 8<<20 {
		t.Errorf("many of them have %d bytes", size)
	}
	small := tangle(1200)
	if all := drawn(t, draw.SVG, small, nil, draw.Options{Most: -1}); !strings.Contains(all, "t1199") ||
		strings.Contains(all, " more") {
		t.Error("not all are drawn where that is asked for")
	}
}
