package sqlite

import (
	"sync"
	"sync/atomic"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/lifecycle"
)

// dictionary numbers values that occur in many rows. Only the commit loop adds values; all goroutines read.
//
// A value is visible to readers before the row with its number is committed, so a reader never finds an unknown
// number. After a rollback the value keeps its number and the next transaction writes it again.
type dictionary[K comparable] struct {
	mu      sync.RWMutex // guards numbers
	numbers map[K]int64
	all     atomic.Pointer[[]K] // by number; 0 is the zero value
	fresh   []int64             // added in the open transaction
	unsaved []int64             // of transactions that were rolled back
	save    func(n int64, v K) error
}

func newDictionary[K comparable]() *dictionary[K] {
	d := &dictionary[K]{numbers: map[K]int64{}}
	var zero K
	d.all.Store(&[]K{zero})
	return d
}

// number gives the value's number; for the loop. The zero value is 0.
func (d *dictionary[K]) number(v K) (int64, error) {
	var zero K
	if v == zero {
		return 0, nil
	}
	if n, ok := d.numbers[v]; ok { // no lock: the loop is the only writer
		return n, nil
	}
	n := d.add(v)
	d.fresh = append(d.fresh, n)
	return n, d.save(n, v)
}

func (d *dictionary[K]) add(v K) int64 {
	all := append(*d.all.Load(), v)
	n := int64(len(all) - 1)
	d.mu.Lock()
	d.numbers[v] = n
	d.mu.Unlock()
	d.all.Store(&all)
	return n
}

// find returns the number of a value that some row may have.
func (d *dictionary[K]) find(v K) (int64, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	n, ok := d.numbers[v]
	return n, ok
}

// value returns the value of a number, the zero value for an unknown one (Fsck reports those).
func (d *dictionary[K]) value(n int64) (v K) {
	if all := *d.all.Load(); n > 0 && n < int64(len(all)) {
		return all[n]
	}
	return v
}

func (d *dictionary[K]) len() int { return len(*d.all.Load()) }

// begin writes again what the last rollback undid.
func (d *dictionary[K]) begin() error {
	for _, n := range d.unsaved {
		if err := d.save(n, d.value(n)); err != nil {
			return err
		}
	}
	d.fresh = append(d.fresh, d.unsaved...)
	d.unsaved = d.unsaved[:0]
	return nil
}

func (d *dictionary[K]) committed() { d.fresh = d.fresh[:0] }

func (d *dictionary[K]) rolledBack() {
	d.unsaved = append(d.unsaved, d.fresh...)
	d.fresh = d.fresh[:0]
}

// load adds value number n at the start. Missing numbers stay unknown.
func (d *dictionary[K]) load(n int64, v K) {
	all := *d.all.Load()
	for int64(len(all)) <= n {
		var zero K
		all = append(all, zero)
	}
	all[n] = v
	d.numbers[v] = n
	d.all.Store(&all)
}

// move is the part of a history entry besides actor, time and reason.
type move struct {
	event    lifecycle.Event
	from, to lifecycle.State
	outcome  lifecycle.Outcome
	by       lifecycle.Actor
}

// names are the dictionaries of a store.
type names struct {
	words *dictionary[string]
	moves *dictionary[move]
	sets  tagSets

	recent [64]word // of the loop: words that were searched last, by a sum of few of their bytes
}

// word is a word with its number.
type word struct {
	text   string
	number int64
}

func newNames() *names {
	return &names{words: newDictionary[string](), moves: newDictionary[move](),
		sets: tagSets{byNumber: map[int64][]string{}}}
}

// Words that people and programs choose freely are added to the dictionary only if they are short and it has space.
const (
	longestWord = 64
	mostWords   = 1 << 20
)

// known returns the number of a word, if it has one. For the loop: most rows have the same few words.
func (n *names) known(text string) (number int64, found bool) {
	if text == "" {
		return 0, true
	}
	w := &n.recent[(len(text)*8+int(text[0])*4+int(text[len(text)-1]))%len(n.recent)]
	if w.text == text {
		return w.number, true
	}
	if number, found = n.words.numbers[text]; found {
		*w = word{n.words.value(number), number} // not text, which may be part of a long one
	}
	return number, found
}

// bindWord binds a freely chosen word: its number, or the text itself, or NULL. For the loop.
func (n *names) bindWord(s statement, i int, word string) error {
	switch number, known := n.known(word); {
	case word == "":
		s.Null(i)
	case len(word) > longestWord, !known && n.words.len() >= mostWords:
		s.Text(i, word)
	case known:
		s.Int(i, number)
	default:
		return n.bindName(s, i, word)
	}
	return nil
}

// bindName binds a word of a lifecycle table: always a number.
func (n *names) bindName(s statement, i int, word string) error {
	number, known := n.known(word)
	var err error
	if !known {
		number, err = n.words.number(word)
	}
	s.Int(i, number)
	return err
}

// getWord reads the result of bindWord.
func (n *names) getWord(s *conn.Stmt, i int) string {
	if s.IsText(i) {
		return s.GetText(i)
	}
	return n.words.value(s.GetInt(i))
}

func (n *names) getName(s *conn.Stmt, i int) string { return n.words.value(s.GetInt(i)) }

func (n *names) begin() error {
	if err := n.words.begin(); err != nil {
		return err
	}
	return n.moves.begin()
}

func (n *names) committed() { n.words.committed(); n.moves.committed() }

func (n *names) rolledBack() { n.words.rolledBack(); n.moves.rolledBack() }

// load reads both dictionaries, before other goroutines use them.
func (n *names) load(c *conn.Conn) error {
	err := each(c, "SELECT w, text FROM word ORDER BY w", func(s *conn.Stmt) error {
		n.words.load(s.GetInt(0), s.GetText(1))
		return nil
	})
	if err != nil {
		return err
	}
	return each(c, "SELECT m, event, from_state, to_state, outcome, actor FROM move ORDER BY m",
		func(s *conn.Stmt) error {
			n.moves.load(s.GetInt(0), move{
				event: lifecycle.Event(s.GetText(1)), from: lifecycle.State(s.GetText(2)),
				to:      lifecycle.State(s.GetText(3)),
				outcome: lifecycle.Outcome(s.GetText(4)), by: lifecycle.Actor(s.GetInt(5)),
			})
			return nil
		})
}
