package pdf

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Page is how a document is printed. The zero Page is A4, upright, with margins of 10 mm.
type Page struct {
	Paper     string   `json:"paper,omitempty"` // a name of [Papers]; defaults to A4
	Landscape bool     `json:"landscape,omitempty"`
	Margins   *Margins `json:"margins,omitempty"` // nil: 10 mm each
	Images    *Images  `json:"images,omitempty"`  // nil: images stay as they are
	Title     string   `json:"title,omitempty"`   // of the document; characters beyond ASCII are replaced
}

// Margins are in millimetres.
type Margins struct {
	Top    float64 `json:"top"`
	Right  float64 `json:"right"`
	Bottom float64 `json:"bottom"`
	Left   float64 `json:"left"`
}

// Images makes the images of a document smaller: as if an image that covers the page had at most so many pixels.
type Images struct {
	Width   int `json:"width"`
	Height  int `json:"height"`
	Quality int `json:"quality"` // of JPEG, 1 to 100
}

// papers have width and height in millimetres (ISO 216; ANSI Y14.1 for the others).
var papers = map[string][2]float64{
	"A0": {841, 1189}, "A1": {594, 841}, "A2": {420, 594}, "A3": {297, 420}, "A4": {210, 297}, "A5": {148, 210},
	"A6": {105, 148}, "Letter": {215.9, 279.4}, "Legal": {215.9, 355.6}, "Tabloid": {279.4, 431.8},
	"Ledger": {431.8, 279.4},
}

const (
	defaultPaper  = "A4"
	defaultMargin = 10 // mm
	inch          = 25.4
	maxPixels     = 65_535
)

// Papers lists the names of paper formats.
func Papers() []string { return slices.Sorted(maps.Keys(papers)) }

// ErrPage is the error for an invalid Page.
var ErrPage = errors.New("invalid page")

// Check reports what is wrong with a page; errors wrap [ErrPage].
func (p *Page) Check() error {
	if _, ok := papers[cmp.Or(p.Paper, defaultPaper)]; !ok {
		return fmt.Errorf("%w: there is no paper format %.40q (there are %s)", ErrPage, p.Paper,
			strings.Join(Papers(), ", "))
	}
	width, height := p.size()
	m := p.margins()
	for _, one := range []float64{m.Top, m.Right, m.Bottom, m.Left} {
		if math.IsNaN(one) || one < 0 {
			return fmt.Errorf("%w: a margin is %g mm", ErrPage, one)
		}
	}
	if m.Left+m.Right > width-10 || m.Top+m.Bottom > height-10 {
		return fmt.Errorf("%w: the margins leave less than 10 mm of %g by %g mm", ErrPage, width, height)
	}
	i := p.Images
	if i != nil && (min(i.Width, i.Height, i.Quality) < 1 || i.Quality > 100 || max(i.Width, i.Height) > maxPixels) {
		return fmt.Errorf("%w: images need a width and a height of 1 to %d and a quality of 1 to 100", ErrPage,
			maxPixels)
	}
	return nil
}

// size is in millimetres.
func (p *Page) size() (width, height float64) {
	s := papers[cmp.Or(p.Paper, defaultPaper)]
	if p.Landscape {
		return s[1], s[0]
	}
	return s[0], s[1]
}

func (p *Page) margins() Margins {
	if p.Margins == nil {
		return Margins{defaultMargin, defaultMargin, defaultMargin, defaultMargin}
	}
	return *p.Margins
}

// resolution is that of images in dots per inch.
func (p *Page) resolution() int {
	width, height := p.size()
	x, y := float64(p.Images.Width)*inch/width, float64(p.Images.Height)*inch/height
	return int(min(max(min(x, y), 9), 2400))
}

// title gives the title in the characters that metadata of a PDF/A surely has: Ghostscript refuses others.
func (p *Page) title() string {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || strings.ContainsRune(`<>&()\`, r) {
			return '_'
		}
		return r
	}, p.Title)
	return cmp.Or(strings.TrimSpace(clean[:min(len(clean), 200)]), "Document")
}

// policy lets a document show what it contains, and nothing else: no script, frame, plugin, form or other address.
const policy = "default-src 'none'; img-src data:; media-src data:; font-src data:; style-src 'unsafe-inline' data:; " +
	"form-action 'none'; base-uri 'none'"

// prelude is put before a document. The document's own doctype, html and head continue it (HTML 13.2.6.4.4); of several
// titles the first counts, and the content policy holds for all that follows it.
func (p *Page) prelude() string {
	width, height := p.size()
	m := p.margins()
	return fmt.Sprintf(`<!DOCTYPE html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="%s">`+
		`<title>%s</title><style>@page{size:%gmm %gmm !important;margin:%gmm %gmm %gmm %gmm !important}</style>`,
		policy, p.title(), width, height, m.Top, m.Right, m.Bottom, m.Left)
}

// Compose gives a document for a printer without a sandbox: with the page, and a policy against scripts and requests.
// Errors: *Error for a document that cannot be printed.
func (p *Page) Compose(document io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(document, maxDocument+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxDocument:
		return nil, failed(CauseDocument, fmt.Errorf("the document has more than %d bytes", maxDocument))
	}
	if err := errors.Join(p.Check(), CheckDocument(bytes.NewReader(text))); err != nil {
		return nil, failed(CauseDocument, err)
	}
	return append([]byte(p.prelude()), text...), nil
}

// Problems of a document that is to be printed.
var (
	ErrEmpty = errors.New("the document has no text and no image")
	ErrLogin = errors.New("the document is the login page of a Moodle, not a report")
)

// CheckDocument reads a document and refuses an empty one and the login page of a Moodle.
func CheckDocument(r io.Reader) error {
	t := html.NewTokenizer(r)
	content, hidden := false, atom.Atom(0)
	for {
		switch t.Next() {
		case html.ErrorToken:
			if err := t.Err(); !errors.Is(err, io.EOF) {
				return err
			}
			if !content {
				return ErrEmpty
			}
			return nil
		case html.TextToken:
			content = content || hidden == 0 && len(bytes.TrimSpace(t.Text())) > 0
		case html.EndTagToken:
			if name, _ := t.TagName(); atom.Lookup(name) == hidden {
				hidden = 0
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			token := t.Token()
			switch token.DataAtom {
			case atom.Title, atom.Style, atom.Script:
				hidden = token.DataAtom
			case atom.Img, atom.Svg, atom.Canvas:
				content = true
			}
			if login(&token) {
				return ErrLogin
			}
		}
	}
}

// login reports whether an element is one of Moodle's login page: its token, or its body.
func login(t *html.Token) bool {
	for _, a := range t.Attr {
		if t.DataAtom == atom.Input && a.Key == "name" && a.Val == "logintoken" ||
			t.DataAtom == atom.Body && a.Key == "id" && a.Val == "page-login-index" {
			return true
		}
	}
	return false
}
