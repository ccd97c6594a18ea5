package sqlite

import (
	"fmt"
	"testing"
)

// TestKnownWords: words that share a slot of the recent ones keep their own numbers, and a word without a number has
// none.
func TestKnownWords(t *testing.T) {
	n := newNames()
	n.words.save = func(int64, string) error { return nil }
	numbers, slots := map[string]int64{}, map[string]bool{}
	for i := range 500 {
		w := fmt.Sprint("word", i)
		if _, found := n.known(w); found {
			t.Fatalf("%s has a number before it was added", w)
		}
		number, err := n.words.number(w)
		if err != nil {
			t.Fatal(err)
		}
		numbers[w] = number
	}
	for round := range 2 {
		for i := range 500 {
			w := fmt.Sprint("word", (i*7)%500)
			if got, found := n.known(w); !found || got != numbers[w] {
				t.Fatalf("round %d: %s has number %d, want %d", round, w, got, numbers[w])
			}
		}
	}
	for _, w := range n.recent {
		if slots[w.text] = true; w.text != "" && numbers[w.text] != w.number {
			t.Errorf("the slot of %s has number %d", w.text, w.number)
		}
	}
	if len(slots) < 3 {
		t.Errorf("control: %d slots were used", len(slots))
	}
}

// TestEventRows: entries are found in the order in which they were added, beyond one part, and after the list was
// emptied and filled again with its memory.
func TestEventRows(t *testing.T) {
	g := newGeneration()
	for round := range 2 {
		const n = 3*chunkLength + 5
		first := int64(1000 * (round + 1))
		for i := range int64(n) {
			g.nextEvent(first + i).job = first + i
		}
		if g.events.n != n || len(g.events.chunks) != 4 || g.firstEvent != first {
			t.Fatalf("round %d: %d entries in %d chunks from %d", round, g.events.n, len(g.events.chunks), g.firstEvent)
		}
		for i := range n {
			if got := g.events.at(i).job; got != first+int64(i) {
				t.Fatalf("round %d: entry %d is of row %d", round, i, got)
			}
		}
		g.clear()
	}
}
