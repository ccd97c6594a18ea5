package ingesthttp_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestMerrittFormValues reads values as programs and pages send them: from files, with line ends around them, with half
// a digest, and with local identifiers in several fields.
func TestMerrittFormValues(t *testing.T) {
	w := open(t, nil, nil)
	for name, c := range map[string]struct {
		fields []string
		want   client.Submission
	}{
		"lines": {[]string{"title", "A\r\nB", "creator", "\nA  B\n\n\tC", "note", "x\ty", "notification", "\n"},
			client.Submission{Title: "A B", Creator: "A  B C", Note: "x y"}},
		"line ends": {[]string{"title", " A\n", "digestType", " md5 ", "digestValue", "0123\r\n", "embargo", "none\n"},
			client.Submission{Title: "A", DigestType: "md5", DigestValue: "0123", Embargo: "none"}},
		"no digest value": {[]string{"digestType", "md5"}, client.Submission{}},
		"an empty value":  {[]string{"digestType", "md5", "digestValue", " "}, client.Submission{}},
		"no digest type":  {[]string{"digestValue", "0123"}, client.Submission{}},
		"local ids": {[]string{"localIdentifier", "a", "localIdentifier", "b;c"},
			client.Submission{LocalIDs: []string{"a", "b;c"}}},
		"a file name stays":  {[]string{"filename", " a "}, client.Submission{Filename: " a "}},
		"control: no fields": {nil, client.Submission{}},
	} {
		t.Run(name, func(t *testing.T) {
			answer, text := w.Ask(w.merritt("/add", parts(append(c.fields, "file:a", "b")...)))
			if answer.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s", answer.Status, text)
			}
			if diff := cmp.Diff(c.want, w.ingest.got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestMerrittSignIn refuses senders without a token, and those whose role may not submit, in the form that Merritt's
// programs read.
func TestMerrittSignIn(t *testing.T) {
	g := servertest.Guard(t, part)
	for secret, status := range map[string]int{"": 401, "stp_x": 401, g.Tokens[identity.Worker]: 403} {
		for media, has := range map[string]string{"": "<exc:error>", "application/json": `"exc:error":`} {
			r := g.With(secret, http.MethodPost, "/submitobject", parts("file:a", "b"))
			r.Header.Set("Accept", media)
			answer, text := g.Ask(r)
			if answer.StatusCode != status || !strings.Contains(text, has) ||
				(status == 401) != (len(answer.Header.Values("WWW-Authenticate")) > 0) {
				t.Errorf("%d, %q: %s, %v: %s", status, media, answer.Status, answer.Header, text)
			}
		}
	}
}
