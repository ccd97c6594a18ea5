// Package decimal compares numbers as they are written in JSON, exactly and whatever their size.
package decimal

import (
	"cmp"
	"strconv"
	"strings"
)

// number is a decimal number: 0.DIGITS times ten to the power of exponent.
type number struct {
	sign     int    // -1, 0 or 1
	digits   string // without zeros at the beginning and the end
	exponent int64
}

// parse reads a JSON number. An exponent beyond int64 counts as the largest or smallest one.
func parse(text string) (n number, ok bool) {
	n.sign = 1
	if rest, negative := strings.CutPrefix(text, "-"); negative {
		text, n.sign = rest, -1
	}
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		exponent, err := strconv.ParseInt(text[at+1:], 10, 62)
		if numError, is := err.(*strconv.NumError); is && numError.Err != strconv.ErrRange {
			return number{}, false
		}
		text, n.exponent = text[:at], exponent
	}
	whole, fraction, _ := strings.Cut(text, ".")
	digits := whole + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return number{}, false
	}
	short := strings.TrimLeft(digits, "0")
	n.exponent += int64(len(whole) - (len(digits) - len(short)))
	if n.digits = strings.TrimRight(short, "0"); n.digits == "" {
		return number{}, true
	}
	return n, true
}

// Compare compares two JSON numbers by their values: 1, 1.0 and 10e-1 are equal. It is not ok if one is no number.
func Compare(a, b string) (c int, ok bool) {
	x, okX := parse(a)
	y, okY := parse(b)
	switch {
	case !okX || !okY:
		return 0, false
	case x.sign != y.sign || x.sign == 0:
		return cmp.Compare(x.sign, y.sign), true
	}
	return x.sign * cmp.Or(cmp.Compare(x.exponent, y.exponent), strings.Compare(x.digits, y.digits)), true
}
