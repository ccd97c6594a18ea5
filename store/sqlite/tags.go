package sqlite

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/stagepost/stagepost/internal/conn"
)

// A record's tags are one word, a JSON array of texts: very many records share few sets of tags. JSON has no text that
// is not UTF-8. Such a tag is an array with its bytes in base64.

// appendTags appends that word; nothing for no tags.
func appendTags(text []byte, tags []string) []byte {
	if len(tags) == 0 {
		return text
	}
	for i, t := range tags {
		text = append(text, "[,"[min(i, 1)])
		if plain(t) {
			text = append(text, '"')
			text = append(text, t...)
			text = append(text, '"')
			continue
		}
		var form any = t
		if !utf8.ValidString(t) {
			form = [][]byte{[]byte(t)}
		}
		quoted, _ := json.Marshal(form) // these types have no marshal errors
		text = append(text, quoted...)
	}
	return append(text, ']')
}

// plain reports whether a text needs no escapes within JSON.
func plain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func parseTags(text string) (tags []string, err error) {
	if text == "" {
		return nil, nil
	}
	var forms []tagForm
	if err := json.Unmarshal([]byte(text), &forms); err != nil {
		return nil, fmt.Errorf("tags: %w", err)
	}
	tags = make([]string, len(forms))
	for i, f := range forms {
		tags[i] = string(f)
	}
	return tags, nil
}

// tagForm is a tag as it is stored.
type tagForm string

// UnmarshalJSON is part of json.Unmarshaler.
func (f *tagForm) UnmarshalJSON(data []byte) error {
	if data[0] != '[' {
		return json.Unmarshal(data, (*string)(f))
	}
	var bytes [][]byte
	if err := json.Unmarshal(data, &bytes); err != nil || len(bytes) != 1 {
		return fmt.Errorf("not bytes: %.40q", data)
	}
	*f = tagForm(bytes[0])
	return nil
}

// tagSets caches the sets of tags by the number of their word, so that they are not parsed for each record. It is
// safe for concurrent use.
type tagSets struct {
	mu       sync.RWMutex // guards all below
	byNumber map[int64][]string
}

// getTags reads the result of bindTags. The slice is shared and read-only.
func (n *names) getTags(s *conn.Stmt, i int) ([]string, error) {
	if s.IsNull(i) {
		return nil, nil
	}
	if s.IsText(i) {
		return parseTags(s.GetText(i))
	}
	return n.tagsOf(s.GetInt(i))
}

func (n *names) tagsOf(number int64) ([]string, error) {
	n.sets.mu.RLock()
	tags, met := n.sets.byNumber[number]
	n.sets.mu.RUnlock()
	if met {
		return tags, nil
	}
	tags, err := parseTags(n.words.value(number))
	if err == nil && tags != nil {
		n.sets.meet(number, tags)
	}
	return tags, err
}

func (t *tagSets) meet(number int64, tags []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byNumber[number] = tags
}

// with returns the numbers of the sets that have the tag.
func (t *tagSets) with(tag string) (numbers []uint32) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for number, tags := range t.byNumber {
		if slices.Contains(tags, tag) {
			numbers = append(numbers, uint32(number))
		}
	}
	return numbers
}

// bindTags binds a record's tags. For the loop.
func (n *names) bindTags(s statement, i int, tags []string) error {
	if len(tags) == 0 {
		s.Null(i)
		return nil
	}
	var buffer [128]byte
	text := appendTags(buffer[:0], tags)
	if number, known := n.words.numbers[string(text)]; known { // no lock: the loop is the only writer
		s.Int(i, number)
		return nil
	}
	return n.bindWord(s, i, string(text))
}

// tagsNumber returns the number of a record's tags for its line, after they were bound or read. For the loop.
func (n *names) tagsNumber(tags []string) uint32 {
	if len(tags) == 0 {
		return 0
	}
	var buffer [128]byte
	number, known := n.words.numbers[string(appendTags(buffer[:0], tags))]
	if !known {
		return unnumbered
	}
	if _, err := n.tagsOf(number); err != nil { // makes the set visible to queries
		return unnumbered
	}
	return uint32(number)
}
