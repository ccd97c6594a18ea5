package docs

import (
	"encoding/xml"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/lifecycle/draw"
	"github.com/stagepost/stagepost/lifecycle/notation"
)

// picture is what an SVG drawing shows, read back from its text.
type picture struct {
	Rects []shape `xml:"rect"`
	Paths []struct {
		Class string `xml:"class,attr"`
		D     string `xml:"d,attr"`
	} `xml:"path"`
	Groups []struct {
		Rects []shape `xml:"rect"`
		Texts []struct {
			X    float64 `xml:"x,attr"`
			Y    float64 `xml:"y,attr"`
			Text string  `xml:",chardata"`
		} `xml:"text"`
	} `xml:"g"`
	Width  float64 `xml:"width,attr"`
	Height float64 `xml:"height,attr"`
}

type shape struct {
	Class  string  `xml:"class,attr"`
	X      float64 `xml:"x,attr"`
	Y      float64 `xml:"y,attr"`
	Width  float64 `xml:"width,attr"`
	Height float64 `xml:"height,attr"`
	name   string
}

// inside reports whether a point is inside a shape by more than a rounding error.
func (s shape) inside(x, y float64) bool {
	const edge = 0.6
	return x > s.X+edge && x < s.X+s.Width-edge && y > s.Y+edge && y < s.Y+s.Height-edge
}

func look(t *testing.T, svg string) (picture, []shape) {
	t.Helper()
	var p picture
	if err := xml.Unmarshal([]byte(svg), &p); err != nil {
		t.Fatal(err)
	}
	var shapes []shape
	for _, g := range p.Groups {
		for _, r := range g.Rects {
			if r.Class == "inner" {
				continue
			}
			for _, text := range g.Texts {
				r.name += strings.TrimSpace(text.Text) + " "
				if !r.inside(text.X, text.Y) {
					t.Errorf("the text %q is outside its shape", text.Text)
				}
			}
			shapes = append(shapes, r)
		}
	}
	return p, shapes
}

// TestDrawingsAreReadable reads the SVG of every table back: no box or label overlaps another or leaves the picture,
// and no line runs through one.
func TestDrawingsAreReadable(t *testing.T) {
	for _, table := range All() {
		for _, v := range views(table) {
			t.Run(fmt.Sprintf("%s/%s/%v", table.Name(), v.Current.State, v.Loops), func(t *testing.T) {
				p, shapes := look(t, draw.SVG(table, v))
				if len(shapes) < len(table.Stages()) || len(p.Paths) == 0 {
					t.Fatalf("%d boxes and labels and %d lines are too few", len(shapes), len(p.Paths))
				}
				for i, a := range shapes {
					if a.X < 0 || a.Y < 0 || a.X+a.Width > p.Width || a.Y+a.Height > p.Height {
						t.Errorf("%s leaves the picture", a.name)
					}
					for _, b := range shapes[i+1:] {
						if a.X < b.X+b.Width && b.X < a.X+a.Width && a.Y < b.Y+b.Height && b.Y < a.Y+a.Height {
							t.Errorf("%s overlaps %s", a.name, b.name)
						}
					}
				}
				for _, path := range p.Paths {
					if !strings.HasPrefix(path.Class, "line") {
						continue
					}
					for _, point := range points(t, path.D) {
						for _, s := range shapes {
							if s.inside(point[0], point[1]) {
								t.Fatalf("line %s runs through %s", path.D, s.name)
							}
						}
					}
				}
			})
		}
	}
}

func views(table *lifecycle.Table) []draw.View {
	last := positions(table)
	return []draw.View{{}, {Loops: true}, {Current: last[len(last)/2], By: lifecycle.Operator}}
}

var pathPart = regexp.MustCompile(`[MVC][^MVC]*`)

// points follows a path of moves, verticals and curves.
func points(t *testing.T, d string) [][2]float64 {
	t.Helper()
	var all [][2]float64
	var x, y float64
	for _, part := range pathPart.FindAllString(d, -1) {
		var n []float64
		for _, word := range strings.Fields(part[1:]) {
			f, err := strconv.ParseFloat(word, 64)
			if err != nil {
				t.Fatalf("path %q: %v", d, err)
			}
			n = append(n, f)
		}
		switch {
		case part[0] == 'M' && len(n) == 2:
			x, y = n[0], n[1]
			all = append(all, [2]float64{x, y})
		case part[0] == 'V' && len(n) == 1:
			for i := range 41 {
				all = append(all, [2]float64{x, y + (n[0]-y)*float64(i)/40})
			}
			y = n[0]
		case part[0] == 'C' && len(n) == 6:
			for i := range 41 {
				s := float64(i) / 40
				a, b, c, e := (1-s)*(1-s)*(1-s), 3*(1-s)*(1-s)*s, 3*(1-s)*s*s, s*s*s
				all = append(all, [2]float64{a*x + b*n[0] + c*n[2] + e*n[4], a*y + b*n[1] + c*n[3] + e*n[5]})
			}
			x, y = n[4], n[5]
		default:
			t.Fatalf("path %q has an unknown part %q", d, part)
		}
	}
	return all
}

// TestEveryTableCanBeWrittenAndRead writes each table as YAML and as a diagram and reads both again.
func TestEveryTableCanBeWrittenAndRead(t *testing.T) {
	for _, table := range All() {
		d, err := notation.ParseYAML(table.Name()+".yaml", notation.WriteYAML(table))
		if err != nil {
			t.Fatalf("%s: %v", table.Name(), err)
		}
		again, err := d.Table()
		if err != nil || again.Hash() != table.Hash() || draw.Markdown(again) != draw.Markdown(table) {
			t.Errorf("%s: read back as another table: %v", table.Name(), err)
		}
		drawn, err := notation.ParseMermaid(table.Name()+".mmd", []byte(draw.Mermaid(table, draw.View{})))
		if err != nil {
			t.Fatalf("%s as a diagram: %v", table.Name(), err)
		}
		if lack := notation.Compare(table.Stages(), drawn.Stages); len(lack) > 0 {
			t.Errorf("%s: the diagram differs: %v", table.Name(), lack)
		}
	}
}
