package svgtest

import (
	"math"
	"testing"
)

func TestContrast(t *testing.T) {
	if got := Contrast("#000000", "#ffffff"); math.Abs(got-21) > 0.01 {
		t.Errorf("black on white has %.2f, want 21", got)
	}
	if got := Contrast("#777777", "#ffffff"); got >= 4.5 || got < 4 {
		t.Errorf("a gray that is known to be a little too light has %.2f", got)
	}
	for _, none := range []string{"", "black", "#00000g", "0000000"} {
		if got := Contrast(none, "#ffffff"); got >= 1 {
			t.Errorf("%q has %.2f", none, got)
		}
	}
}

func TestWellFormed(t *testing.T) {
	for text, want := range map[string]bool{"<a><b/></a>": true, "<a><b></a>": false, "<a>": false, "<a x=1/>": false} {
		if err := WellFormed(text); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}
