package rowlog

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// bound collects what Bind binds.
type bound struct{ values []string }

func (b *bound) put(i int, v any) {
	for len(b.values) < i {
		b.values = append(b.values, "unbound")
	}
	b.values[i-1] = fmt.Sprint(v)
}

func (b *bound) Int(i int, v int64)   { b.put(i, v) }
func (b *bound) Null(i int)           { b.put(i, "null") }
func (b *bound) Text(i int, v string) { b.put(i, "text "+v) }
func (b *bound) Blob(i int, v []byte) { b.put(i, fmt.Sprintf("blob %x", v)) }

// list returns the rows of a content as texts.
func list(t testing.TB, images []Image) (all []string) {
	t.Helper()
	for _, m := range images {
		var b bound
		if err := m.Bind(&b); err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprint(m.Kind, ": ", strings.Join(b.values, ", ")))
	}
	return all
}

func add(t testing.TB, r *Row, values ...any) {
	t.Helper()
	for i := len(values) - 1; i >= 0; i-- { // in any order
		switch v := values[i].(type) {
		case int:
			r.Int(i+1, int64(v))
		case string:
			r.Text(i+1, v)
		case []byte:
			r.Blob(i+1, v)
		}
	}
	if err := r.Run(); err != nil {
		t.Fatal(err)
	}
}

// Rows are read as they were bound; a value that is not bound is NULL, also in the next row.
func TestRows(t *testing.T) {
	var g Group
	word, key, data, numbers := g.Row(Word), g.Row(Key), g.Row(Data), g.Row(Numbers)
	if !g.Empty() {
		t.Error("a new group is not empty")
	}
	add(t, word, -7, "text")
	add(t, key, "", nil, "owner", 1<<40)
	add(t, key, "again")
	data.Int(1, 3)
	data.JSON(2, nil)
	add(t, data)
	data.TextOrNull(2, "{}")
	add(t, data)
	add(t, numbers, 1, 2, 3, []byte{1, 255})
	content := take(&g)
	if !g.Empty() || len(g.Content()) != 0 {
		t.Error("rows are left in the group")
	}
	images, err := rowsIn(content)
	if err != nil {
		t.Fatal(err)
	}
	got, want := list(t, images), []string{
		"1: -7, text text", "7: text , null, text owner, 1099511627776", "7: text again, null, null, null",
		"5: 3, null", "5: null, text {}", "15: 1, 2, 3, blob 01ff",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// take returns a copy of the content of a group, and empties it.
func take(g *Group) []byte {
	content := bytes.Clone(g.Content())
	g.Clear()
	return content
}

// Of several versions of one row, the last is left; rows that are only added stay, in their order.
func TestLatest(t *testing.T) {
	var g Group
	now, data, none, event, task := g.Row(Now), g.Row(Data), g.Row(NoData), g.Row(Event), g.Row(Task)
	var contents [][]byte
	for round := range 3 {
		add(t, event, round+1)
		for row := range 2 {
			add(t, now, row+1, round)
			add(t, data, row+1, fmt.Sprint("data ", round))
			add(t, task, row+1, "a", round)
		}
		add(t, task, 1, "b", round)
		contents = append(contents, take(&g))
	}
	add(t, none, 1)
	contents = append(contents, take(&g))
	images, err := Latest(contents)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range list(t, images) {
		line, _, _ = strings.Cut(line, ", null")
		got = append(got, line)
	}
	want := []string{
		"8: 1", "4: 1, 2", "6: 1", "9: 1, text a, 2", "4: 2, 2", "5: 2, text data 2", "9: 2, text a, 2",
		"9: 1, text b, 2", "8: 2", "8: 3",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// FuzzImages: content that is no list of rows is an error, never a panic.
func FuzzImages(f *testing.F) {
	var g Group
	add(f, g.Row(Word), 1, "text")
	add(f, g.Row(Task), 1, "a", 2, 3)
	whole := take(&g)
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add([]byte{4, 1, 1})
	f.Add([]byte{99, 0})
	f.Fuzz(func(_ *testing.T, content []byte) {
		images, err := Latest([][]byte{content, content})
		if err != nil {
			return
		}
		for _, m := range images {
			_ = m.Bind(&bound{})
		}
	})
}

// rowsIn returns the rows of a content. They are parts of it.
func rowsIn(content []byte) (all []Image, err error) {
	for len(content) > 0 {
		m, rest, err := first(content)
		if err != nil {
			return nil, err
		}
		all, content = append(all, m), rest
	}
	return all, nil
}
