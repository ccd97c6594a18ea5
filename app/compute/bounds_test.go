package compute

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// TestPauses: the pauses between the attempts to hand a job over are together about RetryFor, however many there are,
// and none is shorter than the one before.
func TestPauses(t *testing.T) {
	for _, n := range []int{2, 5, 63, 64, 65, 66, 1000, 5000} {
		a := &App{options: Options{Retries: n, RetryFor: 2 * time.Minute}}
		all, before := time.Duration(0), time.Duration(0)
		for i := 1; i < n; i++ {
			pause := a.pause(i)
			if pause < before || pause < a.options.RetryFor/time.Duration(16*n) {
				t.Fatalf("%d attempts: pause %d is %s, after one of %s", n, i, pause, before)
			}
			all, before = all+pause, pause
		}
		if want := a.options.RetryFor; all < want-time.Second || all > want+want/16 {
			t.Errorf("%d attempts: the pauses take %s", n, all)
		}
		if pause := a.pause(n + 1000); pause != before { // there were more attempts by the setting of before
			t.Errorf("%d attempts: a late pause is %s, want %s", n, pause, before)
		}
	}
}

// TestShortenCutsBetweenCharacters: an error that is kept is valid UTF-8.
func TestShortenCutsBetweenCharacters(t *testing.T) {
	for _, before := range []string{"", "x"} { // with one of them a character lies across the limit
		text := shorten(before + strings.Repeat("\u00fc", 400))
		if !utf8.ValidString(text) || len(text) > 503 || !strings.HasSuffix(text, "\u00fc...") {
			t.Errorf("got %q", text)
		}
	}
	if text := strings.Repeat("\u00fc", 250); shorten(text) != text {
		t.Error("a short text was cut")
	}
}

// TestTurnsAreBounded: while jobs wait, the turns of many owners take bounded memory. The order of owners stays: an
// owner with an old turn goes before one with a recent turn.
func TestTurnsAreBounded(t *testing.T) {
	l := newLine()
	l.jobs["cmp_1"] = waiter{id: "cmp_1"}
	for i := range 3 * mostTurns {
		l.take(fmt.Sprint("owner ", i))
		l.take("ann")
	}
	l.take("bob")
	if len(l.turns) > mostTurns {
		t.Errorf("%d turns are remembered", len(l.turns))
	}
	order := []string{"owner 0", fmt.Sprint("owner ", 3*mostTurns-1), "ann", "bob"}
	for i := range order[1:] {
		a, b := waiter{owner: order[i], id: "z"}, waiter{owner: order[i+1], id: "a"}
		if !l.before(&a, &b) {
			t.Errorf("%s does not go before %s", a.owner, b.owner)
		}
	}
}
