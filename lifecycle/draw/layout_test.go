package draw

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stagepost/stagepost/internal/layered"
	"github.com/stagepost/stagepost/internal/svgtest"
	. "github.com/stagepost/stagepost/lifecycle"
)

// rect is the area of a box or a label.
type rect struct {
	n                        *node
	left, top, right, bottom float64
}

func (l *layout) rects() []rect {
	var all []rect
	for _, rank := range l.Ranks {
		for _, n := range rank {
			if n.Kind != layered.Lane {
				all = append(all, rect{n, n.X - n.W/2, l.Top(n), n.X + n.W/2, l.Bottom(n)})
			}
		}
	}
	return all
}

func (r rect) name(t *chart) string {
	if r.n.Kind == layered.Box {
		return "box " + string(t.stages[r.n.Data.stage].State)
	}
	return fmt.Sprintf("label %v", r.n.Data.words)
}

// collisions lists overlaps: of boxes and labels with each other, and of lines with boxes and labels of others.
func (l *layout) collisions() []string {
	var found []string
	rects := l.rects()
	for i, a := range rects {
		if a.left < 0 || a.top < 0 || a.right > l.Width || a.bottom > l.Height {
			found = append(found, a.name(l.t)+" leaves the drawing")
		}
		for _, b := range rects[i+1:] {
			if a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom {
				found = append(found, a.name(l.t)+" overlaps "+b.name(l.t))
			}
		}
	}
	hit := func(what string, x, y float64, own ...*node) {
		for _, r := range rects {
			if (len(own) == 0 || r.n != own[0] && r.n != own[1]) && x > r.left && x < r.right && y > r.top &&
				y < r.bottom {
				found = append(found, what+" crosses "+r.name(l.t))
			}
		}
	}
	for _, k := range l.Links {
		y1, y2 := l.Bottoms[k.Top.Rank], l.Tops[k.Bottom.Rank]
		for i := range 33 { // the curve, and the straight ends beside it
			s := float64(i) / 32
			x := k.XTop*((1-s)*(1-s)*(1-s)+3*(1-s)*(1-s)*s) + k.XBottom*(3*(1-s)*s*s+s*s*s)
			y := y1*((1-s)*(1-s)*(1-s)+1.5*(1-s)*(1-s)*s+1.5*(1-s)*s*s) + y2*(s*s*s+1.5*(1-s)*(1-s)*s+1.5*(1-s)*s*s)
			what := fmt.Sprintf("line of %v", k.Data.steps)
			hit(what, x, y, k.Top, k.Bottom)
			hit(what, k.XTop, l.Bottom(k.Top)*(1-s)+y1*s, k.Top, k.Bottom)
			hit(what, k.XBottom, y2*(1-s)+l.Top(k.Bottom)*s, k.Top, k.Bottom)
		}
	}
	for r, rank := range l.Ranks {
		for _, n := range rank {
			if n.Kind == layered.Lane {
				for i := range 17 {
					hit(fmt.Sprintf("lane of %v", n.Data.steps), n.X, l.Tops[r]+(l.Bottoms[r]-l.Tops[r])*float64(i)/16)
				}
			}
		}
	}
	return found
}

// anyTable makes random tables that need not be valid: any table can be drawn.
func anyTable(t *rapid.T) *chart {
	n := rapid.IntRange(1, 11).Draw(t, "states")
	name := func(i int) State { return State(fmt.Sprintf("%s%d", strings.Repeat("State", 1+i%4), i)) }
	stages := make([]Stage, n)
	for i := range stages {
		kind := rapid.SampledFrom([]Kind{Queue, Work, Wait, End}).Draw(t, "kind")
		stages[i] = Stage{State: name(i), Kind: kind, Doc: "A state."}
		if kind == Work {
			stages[i].Transitions = OnWork(name(i), "").Transitions
		}
		for j := range rapid.IntRange(0, 5).Draw(t, "arrows") {
			event := Event(strings.Repeat("e", 1+j*3))
			to := name(rapid.IntRange(0, n-1).Draw(t, "to"))
			a := Transition{Event: event, To: to, By: Worker | Timer, Doc: "A transition.",
				Class: rapid.SampledFrom([]Class{Pass, Fail, Move, Reenter}).Draw(t, "class")}
			if a.Class == Reenter {
				a.To = ""
				for range rapid.IntRange(1, 4).Draw(t, "targets") {
					a.States = append(a.States, name(rapid.IntRange(0, n-1).Draw(t, "back")))
				}
			}
			stages[i].Transitions = append(stages[i].Transitions, a)
		}
	}
	table := newChart("any", stages)
	table.next = func(p Position, e Event, by Actor) (Position, error) {
		a := table.transition(p.State, e)
		if a.By&by == 0 {
			return p, errors.New("it may not")
		}
		return Position{State: a.Targets()[0]}, nil
	}
	return table
}

// TestNoDrawingCollides lays out random tables. Boxes and labels do not overlap, and lines cross only their own.
func TestNoDrawingCollides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := anyTable(t)
		l := layOut(table, rapid.Bool().Draw(t, "loops"))
		if found := l.collisions(); len(found) > 0 {
			t.Fatalf("%s", strings.Join(found, "\n"))
		}
	})
}

// TestCollisionsAreSeen is the control: a layout that is pushed together has collisions.
func TestCollisionsAreSeen(t *testing.T) {
	table := newChart("two", []Stage{
		{State: "A", Kind: Work, Transitions: []Transition{OnPass("b", "B", Worker, ""), OnPass("c", "C", Worker, ""),
			OnPass("d", "D", Worker, "")}},
		{State: "B", Kind: End}, {State: "C", Kind: End,
			Transitions: []Transition{OnPass("d", "D", Worker, "")}}, {State: "D", Kind: End},
	})
	l := layOut(table, false)
	if found := l.collisions(); len(found) > 0 {
		t.Fatalf("before: %v", found)
	}
	for _, n := range l.Ranks[2] {
		n.X = l.boxes[1].X
	}
	got := strings.Join(l.collisions(), "\n")
	for _, want := range []string{"overlaps box", "lane of"} {
		if !strings.Contains(got, want) {
			t.Errorf("pushed together: %q lacks %q", got, want)
		}
	}
}

// TestDrawingsOfAnyTableAreWellFormed marks random views and reads the SVG as XML.
func TestDrawingsOfAnyTableAreWellFormed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := anyTable(t)
		at := rapid.SampledFrom(table.stages).Draw(t, "at")
		v := View{Current: Position{State: at.State}, Loops: rapid.Bool().Draw(t, "loops"),
			Path: []Taken{{Event: "e", By: Worker}, {Event: "eeee", By: Worker}}}
		if err := svgtest.WellFormed(table.svg(v)); err != nil {
			t.Fatal(err)
		}
		if table.mermaid(v) == "" || table.dot(v) == "" {
			t.Fatal("an empty drawing")
		}
	})
}
