package report

import (
	"testing"
)

func TestCell(t *testing.T) {
	for text, want := range map[string]string{
		"plain": "plain", "": "", "=1": "'=1", "+1": "'+1", "-1": "'-1", "@x": "'@x", " =1": "' =1", "\t=1": "'\t=1",
		"\r\n=1": "'\r\n=1", "＝1": "'＝1",
		"\"=1": "'\"=1", "\u200b=1": "'\u200b=1", "|cmd": "'|cmd", "a=1": "a=1", "a\x00b": "a b",
		"ark:/1/a": "ark:/1/a", "\xff": "\ufffd",
	} {
		if got := cell(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
