package markup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSentence: texts of strangers are escaped; times and ids are marked.
func TestSentence(t *testing.T) {
	got := string(Sentence("job ing_01J9Z3ABCDEFGHJKMNPQRSTVWX waits until 2026-11-27T12:00:00Z <b>\u202e"))
	want := `job <a href="/jobs/ing_01J9Z3ABCDEFGHJKMNPQRSTVWX" title="ing_01J9Z3ABCDEFGHJKMNPQRSTVWX">` +
		`…PQRSTVWX</a> ` +
		`waits until <time datetime="2026-11-27T12:00:00Z">` + "27\u00a0Nov\u00a02026, 12:00:00\u00a0UTC" + `</time> &lt;b&gt;&lt;U+202E&gt;`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestSentenceCommands: a command in a sentence can be copied as a whole; other code has no button.
func TestSentenceCommands(t *testing.T) {
	got := string(Sentence("request it with `stagepost archive delete arc_01J9Z3ABCDEFGHJKMNPQRSTVWX --note \"WHY\"`, or `a<b`"))
	command := "stagepost archive delete arc_01J9Z3ABCDEFGHJKMNPQRSTVWX --note &#34;WHY&#34;"
	want := `request it with <span class="command"><code>` + command + `</code><button type="button" class="copy js" hidden ` +
		`data-copy="` + command + `" aria-label="Copy the command ` + command + `">Copy</button></span>, or <code>a&lt;b</code>`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
