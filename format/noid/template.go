// Package noid mints and checks opaque names for ARKs by templates of NOID (nice opaque identifiers,
// https://metacpan.org/dist/Noid). A template defines the names, their order and their check characters. The package
// keeps no state: the caller counts, and the n-th name of a template is always the same.
package noid

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"
)

// Alphabet are the extended digits: no vowels, so that names contain no words, and no l, which resembles 1.
const Alphabet = "0123456789bcdfghjkmnpqrstvwxz"

var (
	// ErrTemplate: the template is malformed or has more names than fit in 64 bits.
	ErrTemplate = errors.New("invalid template")
	// ErrExhausted: the template has no name of that number.
	ErrExhausted = errors.New("template exhausted")
	// ErrARK: the text is not an ARK.
	ErrARK = errors.New("invalid ark")
)

// Order is the order in which a template gives its names.
type Order byte

const (
	Random     Order = 'r' // quasi-random: every name once, in an order that hides the count
	Sequential Order = 's' // counting up, until all digits are used
	Unbounded  Order = 'z' // counting up, with further digits in front when all are used
)

// Template is a parsed template such as 99999/fk4.reeeeedeeek: prefix, full stop, order, digits (e: Alphabet, d: 0 to
// 9) and perhaps k for a check character. It does not change and may be shared.
type Template struct {
	text    string
	prefix  string
	order   Order
	digits  string // of e and d
	checked bool
	total   uint64
	shuffle shuffle
}

// Parse reads a template.
func Parse(text string) (*Template, error) {
	prefix, mask, found := strings.Cut(text, ".")
	if !found || len(mask) < 2 {
		return nil, fmt.Errorf("%w %q: want prefix.mask, such as 99999/fk4.reeeeedeeek", ErrTemplate, text)
	}
	if strings.ContainsFunc(prefix, func(c rune) bool { return c != '/' && !nameChar(c) }) ||
		strings.HasSuffix(prefix, "//") {
		return nil, fmt.Errorf("%w %q: prefix has other characters than letters, digits, '/' and =~*+@_$", ErrTemplate,
			text)
	}
	t := &Template{text: text, prefix: prefix, order: Order(mask[0])}
	if t.order != Random && t.order != Sequential && t.order != Unbounded {
		return nil, fmt.Errorf("%w %q: the mask begins with r, s or z", ErrTemplate, text)
	}
	t.digits, t.checked = strings.CutSuffix(mask[1:], "k")
	if t.digits == "" || strings.Trim(t.digits, "ed") != "" {
		return nil, fmt.Errorf("%w %q: the mask has digits e and d, and k at its end only", ErrTemplate, text)
	}
	total, ok := count(t.digits)
	if !ok && t.order != Unbounded {
		return nil, fmt.Errorf("%w %q: more names than 64 bits can count", ErrTemplate, text)
	}
	t.total = total
	if t.order == Random {
		t.shuffle = newShuffle(text, total)
	}
	return t, nil
}

func nameChar(c rune) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.ContainsRune("=~*+@_$", c)
}

func radix(digit byte) uint64 {
	if digit == 'd' {
		return 10
	}
	return uint64(len(Alphabet))
}

// count gives the number of names, or the highest number and false when there are more than that.
func count(digits string) (uint64, bool) {
	total := uint64(1)
	for i := range len(digits) {
		high, low := bits.Mul64(total, radix(digits[i]))
		if high != 0 {
			return math.MaxUint64, false
		}
		total = low
	}
	return total, true
}

// String returns the template as it was parsed.
func (t *Template) String() string { return t.text }

// Seeded returns the template with another order of names for each seed, so that two minters of one template do not
// begin with the same names. Only the order Random changes; the others count up. An empty seed changes nothing.
func (t *Template) Seeded(seed string) *Template {
	if t.order != Random || seed == "" {
		return t
	}
	c := *t
	c.shuffle = newShuffle(t.text+"\n"+seed, t.total)
	return &c
}

// Total returns the number of names; math.MaxUint64 for an unbounded template.
func (t *Template) Total() uint64 {
	if t.order == Unbounded {
		return math.MaxUint64
	}
	return t.total
}

// Mint returns the n-th name, counted from 0, with prefix and check character. Two numbers never give the same name.
func (t *Template) Mint(n uint64) (string, error) {
	if t.order != Unbounded && n >= t.total {
		return "", fmt.Errorf("%w: %s has %d names", ErrExhausted, t.text, t.total)
	}
	if t.order == Random {
		n = t.shuffle.at(n)
	}
	var reversed []byte
	for i := len(t.digits) - 1; i >= 0; i-- {
		r := radix(t.digits[i])
		reversed = append(reversed, Alphabet[n%r])
		n /= r
	}
	for n > 0 { // only of an unbounded template; n-1 so that "00" follows "z"
		n--
		r := radix(t.digits[0])
		reversed = append(reversed, Alphabet[n%r])
		n /= r
	}
	var id strings.Builder
	id.WriteString(t.prefix)
	for i := len(reversed) - 1; i >= 0; i-- {
		id.WriteByte(reversed[i])
	}
	if t.checked {
		id.WriteByte(CheckChar(id.String()))
	}
	return id.String(), nil
}

// Valid reports whether id is one of the template's names, including its check character.
func (t *Template) Valid(id string) bool {
	rest, ok := strings.CutPrefix(id, t.prefix)
	if !ok || (t.checked && !Check(id)) {
		return false
	}
	if t.checked {
		rest = rest[:len(rest)-1]
	}
	extra := len(rest) - len(t.digits)
	if extra < 0 || (extra > 0 && t.order != Unbounded) {
		return false
	}
	for i := range len(rest) {
		digit := t.digits[max(0, i-extra)]
		if at := strings.IndexByte(Alphabet, rest[i]); at < 0 || uint64(at) >= radix(digit) {
			return false
		}
	}
	return true
}
