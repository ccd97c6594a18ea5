package draw_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/draw"
	"github.com/stagepost/stagepost/internal/svgtest"
	"github.com/stagepost/stagepost/lifecycle"
)

// TestColoursCanBeRead holds the colours of both themes against WCAG 2.1 AA: 4.5 to 1 for text, 3 to 1 for what else
// has a meaning.
func TestColoursCanBeRead(t *testing.T) {
	light, dark, found := strings.Cut(draw.Style, "@media (prefers-color-scheme:dark)")
	if !found {
		t.Fatal("the style has no dark theme")
	}
	light, _, _ = strings.Cut(light, "\n")
	dark, _, _ = strings.Cut(dark, "\n")
	for theme, css := range map[string]string{"light": light, "dark": dark} {
		colours := map[string]string{}
		for _, m := range regexp.MustCompile(`--fp-([\w-]+):(#[0-9a-f]{6})`).FindAllStringSubmatch(css, -1) {
			colours[m[1]] = m[2]
		}
		if len(colours) != 15 {
			t.Errorf("%s: %d colours, want 15", theme, len(colours))
		}
		hold := func(front, back string, least float64) {
			if _, ok := colours[front]; !ok {
				t.Fatalf("%s has no %s", theme, front)
			}
			if got := svgtest.Contrast(colours[front], colours[back]); !(got >= least) {
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

// TestColoursWithoutProperties: programs that know no custom properties, as librsvg, find a plain colour before each
// that is one.
func TestColoursWithoutProperties(t *testing.T) {
	all := regexp.MustCompile(`[;{]([a-z-]+):var\(--[a-z-]+,(#[0-9a-f]{6})\)`).FindAllStringSubmatchIndex(draw.Style, -1)
	if len(all) < 30 || len(all) != strings.Count(draw.Style, "var(") {
		t.Fatalf("%d of %d colours are read", len(all), strings.Count(draw.Style, "var("))
	}
	for _, at := range all {
		plain := draw.Style[at[2]:at[3]] + ":" + draw.Style[at[4]:at[5]]
		if !strings.HasSuffix(draw.Style[:at[0]], plain) {
			t.Errorf("no %s before %s", plain, draw.Style[at[0]:at[1]])
		}
	}
}

// TestWholeMessage: the tip of a task that failed has all of its message, and states that after its revert too.
func TestWholeMessage(t *testing.T) {
	long := strings.Repeat("disk full ", 500) + "at the end"
	o := &flow.Outline{Kind: flow.KindFlow, Name: "f", Pattern: flow.PatternLinear,
		Items: []*flow.Outline{{Kind: flow.KindTask, Name: "a"}}}
	for _, state := range []lifecycle.State{flow.FailureState, flow.Reverted} {
		var svg strings.Builder
		records := []flow.Record{{Name: "a", Kind: flow.KindTask, State: state,
			Failure: &flow.Failure{Type: "Disk", Message: long}}}
		if err := draw.SVG(&svg, o, records, draw.Options{}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(svg.String(), "Disk: "+long) {
			t.Errorf("%s: the message is cut", state)
		}
	}
}
