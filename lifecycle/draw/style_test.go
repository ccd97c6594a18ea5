package draw_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/internal/svgtest"
	"github.com/stagepost/stagepost/lifecycle/draw"
)

// TestColoursCanBeRead checks the colours of both themes against WCAG 2.1 AA: 4.5 to 1 for text, 3 to 1 for lines.
func TestColoursCanBeRead(t *testing.T) {
	light, dark, found := strings.Cut(draw.Style, "@media (prefers-color-scheme:dark)")
	if !found {
		t.Fatal("the style has no dark theme")
	}
	for theme, css := range map[string]string{"light": light, "dark": dark} {
		colours := map[string]string{}
		for _, m := range regexp.MustCompile(`--lc-(\w+):(#[0-9a-f]{6})`).FindAllStringSubmatch(css, -1) {
			colours[m[1]] = m[2]
		}
		for _, c := range []struct {
			front, back string
			least       float64
		}{
			{"ink", "ground", 4.5}, {"ink", "box", 4.5}, {"ink", "lit", 4.5}, {"fail", "ground", 4.5}, {"strong",
				"ground", 4.5},
			{"taken", "ground", 4.5}, {"line", "ground", 3}, {"ok", "box", 3}, {"fail", "box", 3}, {"taken", "box", 3},
		} {
			if got := svgtest.Contrast(colours[c.front], colours[c.back]); !(got >= c.least) {
				t.Errorf("%s: %s on %s has contrast %.2f, want %.1f", theme, c.front, c.back, got, c.least)
			}
		}
	}
}
