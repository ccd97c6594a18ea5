package draw_test

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/flow/draw"
)

// TestColoursCanBeRead holds the colours of both themes against WCAG 2.1 AA: 4.5 to 1 for text, 3 to 1 for what else has a meaning.
func TestColoursCanBeRead(t *testing.T) {
	light, dark, found := strings.Cut(draw.Style, "@media (prefers-color-scheme:dark)")
	if !found {
		t.Fatal("the style has no dark theme")
	}
	light, _, _ = strings.Cut(light, "\n")
	dark, _, _ = strings.Cut(dark, "\n")
	for theme, css := range map[string]string{"light": light, "dark": dark} {
		colours := map[string]float64{}
		for _, m := range regexp.MustCompile(`--fp-([\w-]+):(#[0-9a-f]{6})`).FindAllStringSubmatch(css, -1) {
			colours[m[1]] = luminance(t, m[2])
		}
		if len(colours) != 15 {
			t.Errorf("%s: %d colours, want 15", theme, len(colours))
		}
		hold := func(front, back string, least float64) {
			if _, ok := colours[front]; !ok {
				t.Fatalf("%s has no %s", theme, front)
			}
			if got := (max(colours[front], colours[back]) + 0.05) / (min(colours[front], colours[back]) + 0.05); got < least {
				t.Errorf("%s: %s on %s has contrast %.2f, want %.1f", theme, front, back, got, least)
			}
		}
		for _, ground := range []string{"ground", "box", "nest"} {
			hold("ink", ground, 4.5)
			hold("line", ground, 3)
		}
		for _, state := range []string{"running", "success", "failed", "revert", "waits"} {
			hold("ink", state+"-fill", 4.5)
			for _, ground := range []string{"ground", "nest", state + "-fill"} {
				hold(state, ground, 3)
			}
		}
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
