package words_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/job/words"
)

func ExampleOf() {
	fmt.Println(words.Of("Cartes de Cr\u00e8te", "crete_1900.TIF"))
	fmt.Println(words.Sought("cr\u00e8te CART"))
	// Output:
	// 1900 cartes crete de tif
	// [crete cart]
}

func TestSought(t *testing.T) {
	for text, want := range map[string][]string{
		"":                          nil,
		" .-! ":                     nil,
		"Maps of Crete":             {"maps", "of", "crete"},
		"\u00dcber die Stra\u00dfe": {"uber", "die", "strasse"},
		"E\u0301tude \u00c9TUDE":    {"etude", "etude"},
		"ark:/99999/fk4-x":          {"ark", "99999", "fk4", "x"},
		"report_2024.PDF":           {"report", "2024", "pdf"},
		"\ufb01le \uff21\uff22":     {"file", "ab"},
		"\u6771\u4eac Tower":        {"\u6771", "\u4eac", "tower"},
		"a\xffb\x00c":               {"a", "b", "c"},
		"\u0391\u0398\u0397\u039d\u0391 \u0391\u03b8\u03ae\u03bd\u03b1\u03c2": {
			"\u03b1\u03b8\u03b7\u03bd\u03b1", "\u03b1\u03b8\u03b7\u03bd\u03b1\u03c3"},
		strings.Repeat("x", 99):            {strings.Repeat("x", 64)},
		"x" + strings.Repeat("\u00f8", 99): {"x" + strings.Repeat("\u00f8", 31)},
	} {
		if diff := cmp.Diff(want, words.Sought(text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestOf(t *testing.T) {
	if got := words.Of(); got != "" {
		t.Errorf("of nothing: %q", got)
	}
	if got := words.Of("Maps of Crete", "crete 1900.tif", ""); got != "1900 crete maps of tif" {
		t.Errorf("%q", got)
	}
	var b strings.Builder
	for i := range 1000 {
		b.WriteString(strings.Repeat(string(rune('a'+i%26)), 1+i/26) + " ")
	}
	got := words.Of("zebra", b.String())
	if len(got) > job.MostWords || len(got) < job.MostWords-job.MostWord || !strings.Contains(got, "z zebra zz") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

// FuzzOf: a store accepts the words of all texts, and each text is found by its own words.
func FuzzOf(f *testing.F) {
	for _, text := range []string{"", "Maps of Crete", "\u0130stanbul \u01c4 \u1e9e \u0345\u0390", "\xff\x00", "\u0e01\u0e33",
		"\uac00\uac01 \u1112\u1161", strings.Repeat("ab1 cd2 ", 999), "\ufdfa\U0001d400\u2460\u00bd"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w := words.Of(text)
		if err := job.CheckWords(w); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		sought := words.Sought(text)
		q := job.Query{Words: sought[:min(len(sought), job.MostSought)]}
		if err := q.Check(); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if j := (job.Job{Words: w}); len(w) < job.MostWords/2 && !q.HasWords(&j) {
			t.Errorf("%q is not found by %q", w, q.Words)
		}
		if again := words.Of(w); utf8.ValidString(text) && again != w && len(w) < job.MostWords/2 {
			t.Errorf("%q becomes %q", w, again)
		}
	})
}
