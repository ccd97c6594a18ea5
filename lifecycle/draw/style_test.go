package draw_test

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/lifecycle/draw"
)

// TestColoursCanBeRead checks the colours of both themes against WCAG 2.1 AA: 4.5 to 1 for text, 3 to 1 for lines.
func TestColoursCanBeRead(t *testing.T) {
	light, dark, found := strings.Cut(draw.Style, "@media (prefers-color-scheme:dark)")
	if !found {
		t.Fatal("the style has no dark theme")
	}
	for theme, css := range map[string]string{"light": light, "dark": dark} {
		colours := map[string]float64{}
		for _, m := range regexp.MustCompile(`--lc-(\w+):(#[0-9a-f]{6})`).FindAllStringSubmatch(css, -1) {
			colours[m[1]] = luminance(t, m[2])
		}
		for _, c := range []struct {
			front, back string
			least       float64
		}{
			{"ink", "ground", 4.5}, {"ink", "box", 4.5}, {"ink", "lit", 4.5}, {"fail", "ground", 4.5}, {"strong",
				"ground", 4.5},
			{"taken", "ground", 4.5}, {"line", "ground", 3}, {"ok", "box", 3}, {"fail", "box", 3}, {"taken", "box", 3},
		} {
			if got := contrast(colours[c.front], colours[c.back]); got < c.least {
				t.Errorf("%s: %s on %s has contrast %.2f, want %.1f", theme, c.front, c.back, got, c.least)
			}
		}
	}
	if got := contrast(luminance(t, "#000000"), luminance(t, "#ffffff")); math.Abs(got-21) > 0.01 {
		t.Errorf("black on white has contrast %.2f, want 21", got)
	}
}

func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
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

func contrast(a, b float64) float64 { return (max(a, b) + 0.05) / (min(a, b) + 0.05) }
