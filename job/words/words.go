// Package words makes the words by which people find jobs: of titles, names and identifiers, without differences of
// case, accents and the form of characters.
package words

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/stagepost/stagepost/job"
)

// mostText bounds the bytes of a text that are read.
const mostText = 16 << 10

// Of returns the words of texts as [job.Job].Words has them. Words that follow the first [job.MostWords] bytes of words
// are left out.
func Of(texts ...string) string {
	var all []string
	size := -1
	for _, text := range texts {
		for _, w := range Sought(text) {
			if slices.Contains(all, w) {
				continue
			}
			if size += len(w) + 1; size > job.MostWords {
				slices.Sort(all)
				return strings.Join(all, " ")
			}
			all = append(all, w)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// Sought returns the words of a text in their order, as [job.Query].Words has them: runs of letters and digits, of
// which the first [job.MostWord] bytes count. A character of Chinese or Japanese is a word, because nothing separates
// words there.
func Sought(text string) (all []string) {
	if len(text) > mostText {
		text = text[:mostText]
	}
	text = norm.NFKD.String(strings.ToValidUTF8(text, " "))
	text = norm.NFKD.String(cases.Fold().String(text))
	var word []rune
	end := func() {
		if w := shortened(norm.NFC.String(string(word))); w != "" {
			all = append(all, w)
		}
		word = word[:0]
	}
	for _, r := range text {
		switch {
		case unicode.Is(unicode.Mn, r): // an accent
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
			end()
			word = append(word, r)
			end()
		case unicode.IsLetter(r), unicode.IsNumber(r), unicode.Is(unicode.Mc, r):
			word = append(word, r)
		default:
			end()
		}
	}
	end()
	return all
}

// shortened returns the beginning of a word that counts.
func shortened(w string) string {
	if len(w) <= job.MostWord {
		return w
	}
	n := job.MostWord
	for !utf8.RuneStart(w[n]) {
		n--
	}
	return w[:n]
}
