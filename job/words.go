package job

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of the words by which people find jobs.
const (
	MostWords  = 1 << 10 // bytes of [Job.Words]
	MostWord   = 64      // bytes of one word
	MostSought = 16      // words of [Query.Words]
)

// CheckWords returns why a text cannot be [Job.Words], or nil if it can be: words in order, each once, with one blank
// between two. A word is UTF-8, and has no ASCII characters but digits and small letters. Package words makes them.
func CheckWords(text string) error {
	if len(text) > MostWords {
		return fmt.Errorf("its words have %d bytes, more than %d", len(text), MostWords)
	}
	if text == "" {
		return nil
	}
	last := ""
	for w := range strings.SplitSeq(text, " ") {
		if !isWord(w) {
			return fmt.Errorf("%.80q is no word of a job", w)
		}
		if w <= last {
			return fmt.Errorf("the word %.80q follows %.80q: words are in order, each once", w, last)
		}
		last = w
	}
	return nil
}

func isWord(w string) bool {
	for i := range len(w) {
		if c := w[i]; c < utf8.RuneSelf && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return w != "" && len(w) <= MostWord && utf8.ValidString(w)
}

// Check returns an error of kind Invalid if Words are none, too long or too many. Every store calls it.
func (q *Query) Check() error {
	if len(q.Words) > MostSought {
		return Errorf(Invalid, "list", "", "a query has at most %d words, not %d", MostSought, len(q.Words))
	}
	for _, w := range q.Words {
		if !isWord(w) {
			return Errorf(Invalid, "list", "", "%.80q is no word of a query", w)
		}
	}
	return nil
}

// HasWords reports whether the job has all words of the query, the last one as the beginning of a word.
func (q *Query) HasWords(j *Job) bool {
	for i, w := range q.Words {
		found := false
		for has := range strings.SplitSeq(j.Words, " ") {
			if found = has == w || i == len(q.Words)-1 && strings.HasPrefix(has, w); found {
				break
			}
		}
		if !found {
			return false
		}
	}
	return true
}
