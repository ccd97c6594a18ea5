package tree

import "testing"

func TestUnquote(t *testing.T) {
	for text, want := range map[string]string{
		"plain 'x'":                    "plain 'x'",
		`unknown version "1.3"`:        "unknown version ...",
		`key "a\"hush\"b" is at [1:1]`: "key ... is at [1:1]",
		"key `a` and \"b\"":            "key ...",
		"key \"a":                      "key ...",
		"first\nsecond":                "first",
	} {
		if got := unquote(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
