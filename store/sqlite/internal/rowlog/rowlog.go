// Package rowlog encodes the rows that a group of operations writes as the content of a record of the log, and reads
// them back. A row is its kind and the values that its statement binds, in their order, so that applying it needs
// nothing else.
package rowlog

import (
	"encoding/binary"
	"errors"
	"unsafe"
)

// Kind is the kind of a row: the statement that writes it.
type Kind byte

// The kinds. Their numbers and their parameters are part of the format. A new meaning is a new kind.
const (
	Word     Kind = 1  // number, text
	Move     Kind = 2  // number, event, from, to, outcome, actor
	Made     Kind = 3  // the columns of job_made
	Now      Kind = 4  // the columns of job_now, beginning with the row number
	Data     Kind = 5  // row number, data
	NoData   Kind = 6  // row number
	Key      Kind = 7  // key, kind, owner, row number
	Event    Kind = 8  // the columns of event without address and worked; of earlier versions
	Task     Kind = 9  // the columns of task, beginning with row number and name
	Hold     Kind = 10 // the columns of hold, and the version that earlier programs wrote
	DropHold Kind = 11 // scope
	Message  Kind = 12 // the columns of message
	Audit    Kind = 13 // the columns of audit
	View     Kind = 14 // kind of jobs
	Numbers  Kind = 15 // highest numbers of jobs, history entries and audit entries, hash of the last audit entry
	Sent     Kind = 16 // the columns of event without worked; of earlier versions
	Audited  Kind = 17 // the columns of audit and the address of the sender
	Requires Kind = 18 // row number, labels that the job requires; after Made
	Entry    Kind = 19 // the columns of event
	Words    Kind = 20 // row number, words of the job; after Made
)

// parameters are the numbers of values.
var parameters = [...]int{Word: 2, Move: 6, Made: 10, Now: 29, Data: 2, NoData: 1, Key: 4, Event: 10, Task: 12,
	Hold: 13, DropHold: 1, Message: 12, Audit: 13, View: 1, Numbers: 4, Sent: 11, Audited: 14, Requires: 2,
	Entry: 12, Words: 2}

const mostParameters = 29

// The types of values.
const (
	null = iota
	number
	text
	blob
)

var errContent = errors.New("the content of a record of the log is not a list of rows")

// Group collects the rows of a group of operations.
type Group struct {
	content []byte
	rows    int
}

// Row returns a statement that adds rows of a kind to the group.
func (g *Group) Row(k Kind) *Row { return &Row{group: g, kind: k, count: parameters[k]} }

// Empty reports whether there are no rows.
func (g *Group) Empty() bool { return g.rows == 0 }

// Content returns the content of a record with all rows. It is valid until Clear.
func (g *Group) Content() []byte { return g.content }

// Clear drops all rows.
func (g *Group) Clear() { g.content, g.rows = g.content[:0], 0 }

// Row is a statement of a [Group]: bind each value, then Run. Parameters count from 1, as those of SQLite; one that
// is not bound is NULL.
type Row struct {
	group  *Group
	kind   Kind
	count  int
	values []byte
	at     [mostParameters]struct{ from, to int } // of each value in values
	next   int                                    // number of values that were bound in their order; -1: in another
}

func (r *Row) begin(i int) {
	r.at[i-1].from = len(r.values)
	if i == r.next+1 {
		r.next = i
	} else {
		r.next = -1
	}
}

func (r *Row) end(i int) { r.at[i-1].to = len(r.values) }

// Int binds a number.
func (r *Row) Int(i int, v int64) {
	r.begin(i)
	r.values = binary.AppendVarint(append(r.values, number), v)
	r.end(i)
}

// Null binds NULL.
func (r *Row) Null(i int) {
	r.begin(i)
	r.values = append(r.values, null)
	r.end(i)
}

// Text binds a text.
func (r *Row) Text(i int, v string) {
	r.begin(i)
	r.values = binary.AppendUvarint(append(r.values, text), uint64(len(v)))
	r.values = append(r.values, v...)
	r.end(i)
}

// TextOrNull binds a text, or NULL if it is empty.
func (r *Row) TextOrNull(i int, v string) {
	if v == "" {
		r.Null(i)
		return
	}
	r.Text(i, v)
}

// JSON binds bytes as text, or NULL if there are none.
func (r *Row) JSON(i int, v []byte) { r.TextOrNull(i, view(v)) }

// Blob binds bytes.
func (r *Row) Blob(i int, v []byte) {
	r.begin(i)
	r.values = binary.AppendUvarint(append(r.values, blob), uint64(len(v)))
	r.values = append(r.values, v...)
	r.end(i)
}

// Run adds the row to the group. It never fails.
func (r *Row) Run() error {
	b := append(r.group.content, byte(r.kind))
	if r.next == r.count { // most rows
		b = binary.AppendUvarint(b, uint64(len(r.values)))
		b = append(b, r.values...)
	} else {
		b = r.reordered(b)
	}
	r.group.content = b
	r.group.rows++
	r.values, r.next = r.values[:0], 0
	clear(r.at[:r.count])
	return nil
}

// reordered appends the size and the values of a row in their order, NULL for those that are not bound.
func (r *Row) reordered(b []byte) []byte {
	size := 0
	for i := range r.count {
		size += max(1, r.at[i].to-r.at[i].from)
	}
	b = binary.AppendUvarint(b, uint64(size))
	for i := range r.count {
		if v := r.at[i]; v.to > v.from {
			b = append(b, r.values[v.from:v.to]...)
		} else {
			b = append(b, null)
		}
	}
	return b
}

// view is a string of the same bytes, without a copy.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Image is an encoded row.
type Image struct {
	Kind   Kind
	values []byte
}

// Binder receives the values of a row: a prepared statement. It copies them.
type Binder interface {
	Int(i int, v int64)
	Null(i int)
	Text(i int, v string)
	Blob(i int, v []byte)
}

// first returns the first row of a content, and the rest.
func first(content []byte) (m Image, rest []byte, err error) {
	kind := Kind(content[0])
	size, n := binary.Uvarint(content[1:])
	if int(kind) >= len(parameters) || parameters[kind] == 0 || n <= 0 || size > uint64(len(content)-1-n) {
		return m, nil, errContent
	}
	begin := 1 + n
	return Image{kind, content[begin : begin+int(size)]}, content[begin+int(size):], nil
}

// Bind binds all values of the row.
func (m Image) Bind(to Binder) error {
	rest := m.values
	for i := 1; i <= parameters[m.Kind]; i++ {
		if len(rest) == 0 {
			return errContent
		}
		kind := rest[0]
		rest = rest[1:]
		switch kind {
		case null:
			to.Null(i)
		case number:
			v, n := binary.Varint(rest)
			if n <= 0 {
				return errContent
			}
			to.Int(i, v)
			rest = rest[n:]
		case text, blob:
			size, n := binary.Uvarint(rest)
			if n <= 0 || size > uint64(len(rest)-n) {
				return errContent
			}
			v := rest[n : n+int(size)]
			if kind == text {
				to.Text(i, view(v))
			} else {
				to.Blob(i, v)
			}
			rest = rest[n+int(size):]
		default:
			return errContent
		}
	}
	if len(rest) > 0 {
		return errContent
	}
	return nil
}

// target is the row of a table that an image replaces.
type target struct {
	kind Kind
	row  int64
	name string
}

// target returns the row of a table of an image whose earlier versions are not needed; ok is false for other kinds.
func (m Image) target() (p target, ok bool) {
	switch m.Kind {
	case Now, Data, NoData, Task:
	default:
		return p, false
	}
	if len(m.values) == 0 || m.values[0] != number {
		return p, false
	}
	row, n := binary.Varint(m.values[1:])
	if n <= 0 {
		return p, false
	}
	p = target{kind: m.Kind, row: row}
	switch m.Kind {
	case NoData:
		p.kind = Data
	case Task:
		rest := m.values[1+n:]
		if len(rest) == 0 || rest[0] != text {
			return p, false
		}
		size, n := binary.Uvarint(rest[1:])
		if n <= 0 || size > uint64(len(rest)-1-n) {
			return p, false
		}
		p.name = view(rest[1+n : 1+n+int(size)])
	}
	return p, true
}

// Latest returns the rows of several contents in their order; of several versions of one row of a table, the last.
func Latest(contents [][]byte) ([]Image, error) {
	var r Reduction
	return r.Latest(contents)
}

// Reduction is [Latest] with memory that is used again. The zero Reduction may be used.
type Reduction struct {
	at  map[target]int
	all []Image
}

// Latest returns what the function returns; it is valid until the next call.
func (r *Reduction) Latest(contents [][]byte) ([]Image, error) {
	if r.at == nil {
		r.at = map[target]int{}
	}
	clear(r.at)
	clear(r.all) // of earlier contents
	r.all = r.all[:0]
	for _, content := range contents {
		for len(content) > 0 {
			m, rest, err := first(content)
			if err != nil {
				return nil, err
			}
			content = rest
			p, replaces := m.target()
			if replaces {
				if i, met := r.at[p]; met {
					r.all[i] = m
					continue
				}
				r.at[p] = len(r.all)
			}
			r.all = append(r.all, m)
		}
	}
	return r.all, nil
}
