// Package svgtest checks drawings and style sheets in tests.
package svgtest

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
)

// WellFormed returns the first error in an XML document.
func WellFormed(text string) error {
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Contrast returns the contrast ratio of two colors (#rrggbb) by WCAG 2.1, from 1 to 21. Text needs 4.5, anything else
// that has a meaning 3. Of a text that is no color it is not a number, so test that the ratio is large enough, and not
// that it is too small.
func Contrast(front, back string) float64 {
	a, b := luminance(front), luminance(back)
	return (max(a, b) + 0.05) / (min(a, b) + 0.05)
}

// luminance returns the relative luminance of a color by WCAG 2.1.
func luminance(color string) float64 {
	if len(color) != 7 || color[0] != '#' {
		return math.NaN()
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(color[1+2*i:3+2*i], 16, 8)
		if err != nil {
			return math.NaN()
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}
