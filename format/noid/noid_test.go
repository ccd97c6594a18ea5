package noid

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func parse(t testing.TB, text string) *Template {
	t.Helper()
	template, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return template
}

func TestCheckCharacter(t *testing.T) {
	// The example of the NOID documentation.
	if got := CheckChar("13030/xf93gt2"); got != 'q' {
		t.Errorf("check character %c, want q", got)
	}
	if !Check("13030/xf93gt2q") {
		t.Error("13030/xf93gt2q refused")
	}
	for _, id := range []string{"", "q", "13030/xf93gt2r", "13030/xf93gt2", "13030/xf93tg2q"} {
		if Check(id) {
			t.Errorf("%q accepted", id)
		}
	}
}

func TestCheckNoticesEveryErrorOfOneCharacterAndExchange(t *testing.T) {
	template := parse(t, "13030/xf4.reeeeedeeek")
	for n := range uint64(200) {
		id, err := template.Mint(n)
		if err != nil || !Check(id) || !template.Valid(id) {
			t.Fatalf("Mint(%d) = %q, %v", n, id, err)
		}
		for i := range len(id) {
			for _, c := range []byte(Alphabet) {
				if strings.IndexByte(Alphabet, id[i]) < 0 || c == id[i] {
					continue
				}
				if wrong := id[:i] + string(c) + id[i+1:]; Check(wrong) {
					t.Fatalf("%s for %s is not noticed", wrong, id)
				}
			}
			if i > 0 && id[i] != id[i-1] && id[i] != '/' && id[i-1] != '/' {
				if wrong := id[:i-1] + string(id[i]) + string(id[i-1]) + id[i+1:]; Check(wrong) {
					t.Fatalf("%s for %s is not noticed", wrong, id)
				}
			}
		}
	}
}

func TestMint(t *testing.T) {
	for _, test := range []struct {
		template string
		n        uint64
		want     string
	}{
		{"99999/fk4.sd", 0, "99999/fk40"},
		{"99999/fk4.sd", 9, "99999/fk49"},
		{"99999/fk4.sde", 29, "99999/fk410"},
		{"99999/fk4.sed", 289, "99999/fk4z9"},
		{"99999/fk4.zd", 9, "99999/fk49"},
		{"99999/fk4.zd", 10, "99999/fk400"},
		{"99999/fk4.zd", 109, "99999/fk499"},
		{"99999/fk4.zd", 110, "99999/fk4000"},
		{"x.zedk", 289, "xz9" + string(CheckChar("xz9"))},
		// The names of a random template must never change.
		{"99999/fk4.reeeeedeeek", 0, "99999/fk4" + golden[0]},
		{"99999/fk4.reeeeedeeek", 1, "99999/fk4" + golden[1]},
		{"99999/fk4.rd", 3, "99999/fk4" + golden[2]},
	} {
		got, err := parse(t, test.template).Mint(test.n)
		if err != nil || got != test.want {
			t.Errorf("%s Mint(%d) = %q, %v; want %q", test.template, test.n, got, err, test.want)
		}
	}
}

func TestNamesAreABijection(t *testing.T) {
	for _, text := range []string{"a.rd", "a.rdd", "a.re", "a.redk", "a.reee", "a.sed", "a.sedk", "a.rdddd"} {
		template := parse(t, text)
		seen := map[string]bool{}
		for n := range template.Total() {
			id, err := template.Mint(n)
			if err != nil || !template.Valid(id) {
				t.Fatalf("%s Mint(%d) = %q, %v", text, n, id, err)
			}
			seen[id] = true
		}
		if uint64(len(seen)) != template.Total() {
			t.Errorf("%s: %d different names of %d", text, len(seen), template.Total())
		}
		if id, err := template.Mint(template.Total()); !errors.Is(err, ErrExhausted) {
			t.Errorf("%s after the last: %q, %v; want ErrExhausted", text, id, err)
		}
	}
}

// A seed changes the order of a random template and nothing else: not the names, and not those of a template without
// seed or of another order.
func TestSeeded(t *testing.T) {
	template := parse(t, "a.rddk")
	orders := map[string]string{}
	for _, seed := range []string{"", "one", "two"} {
		seen, order := map[string]bool{}, ""
		for n := range template.Total() {
			id, err := template.Seeded(seed).Mint(n)
			if err != nil || !template.Valid(id) {
				t.Fatalf("seed %q: Mint(%d) = %q, %v", seed, n, id, err)
			}
			seen[id] = true
			order += id + " "
		}
		if len(seen) != 100 {
			t.Errorf("seed %q: %d different names", seed, len(seen))
		}
		orders[order] = seed
	}
	if len(orders) != 3 {
		t.Errorf("the orders are not different: %v", orders)
	}
	plain, err := template.Mint(7)
	if got, _ := template.Seeded("").Mint(7); err != nil || got != plain {
		t.Errorf("without a seed: got %q, want %q", got, plain)
	}
	if got, err := parse(t, "a.sdd").Seeded("one").Mint(7); err != nil || got != "a07" {
		t.Errorf("sequential: got %q, %v", got, err)
	}
}

func TestUnboundedNeverRepeats(t *testing.T) {
	template := parse(t, "x.zdek")
	seen := map[string]bool{}
	for n := range uint64(20_000) {
		id, err := template.Mint(n)
		if err != nil || seen[id] || !template.Valid(id) {
			t.Fatalf("Mint(%d) = %q, %v (seen %v, valid %v)", n, id, err, seen[id], template.Valid(id))
		}
		seen[id] = true
	}
	if id, err := template.Mint(math.MaxUint64); err != nil || !template.Valid(id) {
		t.Errorf("last: %q, %v", id, err)
	}
}

func TestRandomShowsNoCount(t *testing.T) {
	template := parse(t, "x.reeee")
	other := parse(t, "y.reeee")
	neighbours, same := 0, 0
	for n := range uint64(1000) {
		a, _ := template.Mint(n)
		b, _ := template.Mint(n + 1)
		c, _ := other.Mint(n)
		if a[:4] == b[:4] {
			neighbours++
		}
		if a[1:] == c[1:] {
			same++
		}
	}
	if neighbours > 5 || same > 5 {
		t.Errorf("%d of 1000 differ in the last digit only, %d are those of another template", neighbours, same)
	}
}

func TestTotal(t *testing.T) {
	for text, want := range map[string]uint64{
		"x.rd": 10, "x.sed": 290, "99999/fk4.reeeeedeeek": 29 * 29 * 29 * 29 * 29 * 10 * 29 * 29 * 29,
		"x.zd":                    math.MaxUint64,
		"x.zeeeeeeeeeeeeeeeeeeee": math.MaxUint64,
	} {
		if got := parse(t, text).Total(); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"", "x", "x.",
		"x.r", "x.rk", "x.rkd", "x.qd", "x.rdx", "x.rd.d", "a b.rd", "x.rekd", "x.reeeeeeeeeeeeee",
		"ark:/99999/fk4.rd"} {
		if template, err := Parse(text); !errors.Is(err, ErrTemplate) {
			t.Errorf("%q: %v, %v; want ErrTemplate", text, template, err)
		}
	}
}

func TestValidRefuses(t *testing.T) {
	template := parse(t, "99999/fk4.sdek")
	id, err := template.Mint(40)
	if err != nil || !template.Valid(id) {
		t.Fatalf("control: %q, %v", id, err)
	}
	for _, wrong := range []string{"", "99999/fk4",
		id[:len(id)-1], id + "0", "99999/fk5" + id[9:], checked("99999/fk4bb"), checked("99999/fk41"),
		checked("99999/fk4111")} {
		if template.Valid(wrong) {
			t.Errorf("%q accepted", wrong)
		}
	}
}

func checked(id string) string { return id + string(CheckChar(id)) }

func TestARK(t *testing.T) {
	for s, want := range map[string]string{
		"ark:/99999/fk4abc":                      "ark:/99999/fk4abc",
		"ark:99999/fk4abc":                       "ark:/99999/fk4abc",
		"ARK:/99999/fk4abc":                      "ark:/99999/fk4abc",
		" ark:/99999/fk4-ab-c/ ":                 "ark:/99999/fk4abc",
		"https://n2t.net/ark:/13030/xf93gt2q":    "ark:/13030/xf93gt2q",
		"HTTP://example.org/ark:b5072/x":         "ark:/b5072/x",
		"ark:/99999/fk4abc//page2.v3.pdf.":       "ark:/99999/fk4abc/page2.v3.pdf",
		"ark:/99999/a%2fb%C3%bC":                 "ark:/99999/a%2Fb%C3%BC",
		"ark:/12148/btv1b8449691v/f29.highres_X": "ark:/12148/btv1b8449691v/f29.highres_X",
	} {
		got, err := ParseARK(s)
		if err != nil || got.String() != want {
			t.Errorf("%q: %q, %v; want %q", s, got, err, want)
		}
		if again, err := ParseARK(got.Modern()); err != nil || again != got {
			t.Errorf("%q: %v becomes %v, %v", s, got, again, err)
		}
	}
	for _, s := range []string{
		"", "ark:", "ark:/99999", "ark:/99999/", "ark:/9999/x", "ark:/abcde/x", "doi:10.1/x", "ark:/99999/a b",
		"ark:/99999/-", "ark:/99999/...",
		"ark:/99999/a%2", "ark:/99999/a\nb", "ark://99999/x", "https://n2t.net/", "ark:/99999/ä", "ark:/99999/" +
			strings.Repeat("x", 3000),
		"ark:/99999/../etc",
	} {
		if a, err := ParseARK(s); !errors.Is(err, ErrARK) {
			t.Errorf("%q: %v, %v; want ErrARK", s, a, err)
		}
	}
	a, err := ParseARK("ark:/13030/xf93gt2q/chapter.pdf")
	if err != nil || a.Base().String() != "ark:/13030/xf93gt2q" || !a.Checked() {
		t.Errorf("%v: base %v, checked %v, %v", a, a.Base(), a.Checked(), err)
	}
	if b := (ARK{"13030", "xf93gt2r"}); b.Checked() {
		t.Errorf("%v has a right check character", b)
	}
}

func TestMintedNamesAreARKs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mask := rapid.StringMatching(`[rsz][ed]{1,9}k?`).Draw(t, "mask")
		template, err := Parse("99999/fk4." + mask)
		if err != nil {
			t.Fatal(err)
		}
		n := rapid.Uint64Range(0, template.Total()-1).Draw(t, "n")
		id, err := template.Mint(n)
		if err != nil || !template.Valid(id) {
			t.Fatalf("Mint(%d) = %q, %v", n, id, err)
		}
		a, err := ParseARK("ark:/" + id)
		if err != nil || a.Path() != id {
			t.Fatalf("%q becomes %v, %v", id, a, err)
		}
		if template.checked && !a.Checked() {
			t.Fatalf("%v: check character", a)
		}
	})
}

func FuzzParseARK(f *testing.F) {
	f.Add("ark:/99999/fk4abc")
	f.Add("https://n2t.net/ark:99999/a-b%2f/c.d")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseARK(s)
		if err != nil {
			return
		}
		for _, form := range []string{a.String(), a.Modern()} {
			if again, err := ParseARK(form); err != nil || again != a {
				t.Errorf("%q: %v becomes %v, %v", s, a, again, err)
			}
		}
	})
}

func ExampleTemplate_Mint() {
	t, err := Parse("99999/fk4.sedk")
	if err != nil {
		fmt.Println(err)
		return
	}
	for n := range uint64(3) {
		id, err := t.Mint(n)
		fmt.Println("ark:/"+id, err)
	}
	// Output:
	// ark:/99999/fk400q <nil>
	// ark:/99999/fk4013 <nil>
	// ark:/99999/fk402g <nil>
}

func BenchmarkMintRandom(b *testing.B) {
	t := parse(b, "99999/fk4.reeeeedeeek")
	n := uint64(0)
	for b.Loop() {
		if _, err := t.Mint(n); err != nil {
			b.Fatal(err)
		}
		n++
	}
}
