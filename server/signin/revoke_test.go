package signin_test

import (
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
)

// TestRevokeTokens: a person revokes its own tokens, an admin those of all. A revoked token is refused at once, and the
// file and the audit log have who revoked it and why. What is not revoked goes on, which is the control.
func TestRevokeTokens(t *testing.T) {
	h := open(t, nil)
	own, spare := h.addToken(t, "ann", identity.Depositor), h.addToken(t, "ann", identity.Depositor)
	bob, root := h.addToken(t, "bob", identity.Depositor), h.addToken(t, "root", identity.Admin)
	if _, err := h.noted.Revoke(hashKey(t, h.worker), "olga"); err != nil { // the server reads the file now
		t.Fatal(err)
	}
	ask := func(secret, method, path string) (int, string) {
		r := h.Request(method, path, "")
		r.Header.Set("Authorization", "Bearer "+secret)
		answer, text := h.Ask(r)
		return answer.StatusCode, text
	}
	const mine, all = "/api/v1/session/tokens/", "/api/v1/admin/tokens/"
	note := "?note=" + url.QueryEscape("left on a shared\nmachine: again")
	for _, c := range []struct {
		what, secret, path string
		want               int
	}{
		{"of another person", own, mine + hashOf(t, bob), http.StatusNotFound},
		{"of all as a depositor", own, all + hashOf(t, bob), http.StatusForbidden},
		{"by a few digits", own, mine + hashOf(t, spare)[:16], http.StatusNotFound},
		{"by no digits", root, all + "none", http.StatusNotFound},
		{"without authentication", "", mine + hashOf(t, spare), http.StatusUnauthorized},
		{"with a long note", own, mine + hashOf(t, spare) + "?note=" + strings.Repeat("x", server.MostNote+1),
			http.StatusBadRequest},
		{"by a field that there is not", own, mine + hashOf(t, spare) + "?why=x", http.StatusBadRequest},
	} {
		if got, text := ask(c.secret, http.MethodDelete, c.path); got != c.want {
			t.Errorf("%s: got %d, want %d: %s", c.what, got, c.want, text)
		}
	}
	for _, secret := range []string{own, spare, bob, root} {
		if got, _ := ask(secret, http.MethodGet, "/api/v1/session/tokens"); got != http.StatusOK {
			t.Fatalf("a token before it is revoked: got %d", got)
		}
	}
	if noted := h.audited("revoke-token"); len(noted) != 0 {
		t.Errorf("refused acts are in the audit log: %+v", noted)
	}
	for _, c := range []struct{ revoked, by, path, left string }{{spare, own, mine, own}, {bob, root, all, own}} {
		got, text := ask(c.by, http.MethodDelete, c.path+hashOf(t, c.revoked)+note)
		if got != http.StatusOK || strings.Contains(text, hashOf(t, c.revoked)) ||
			!strings.Contains(text, hashOf(t, c.left)) {
			t.Fatalf("got %d: %s", got, text)
		}
		if got, _ := ask(c.revoked, http.MethodGet, "/api/v1/session/tokens"); got != http.StatusUnauthorized {
			t.Errorf("a revoked token: got %d", got)
		}
		if got, _ := ask(c.by, http.MethodDelete, c.path+hashOf(t, c.revoked)); got != http.StatusNotFound {
			t.Errorf("a revoked token is revoked again: got %d", got)
		}
	}
	if got, _ := ask(own, http.MethodGet, "/api/v1/session/tokens"); got != http.StatusOK {
		t.Errorf("control: the token that is left: got %d", got)
	}
	noted := h.audited("revoke-token")
	if len(noted) != 2 || noted[0].Actor != "ann" || noted[0].Note != "left on a shared\nmachine: again" ||
		!strings.Contains(noted[0].Object, "token "+hashOf(t, spare)[:16]+" of ann") || noted[1].Actor != "root" {
		t.Errorf("audited: %+v", noted)
	}
	text, err := os.ReadFile(h.tokens)
	if err != nil || !strings.Contains(string(text), " revoked "+hashOf(t, spare)[:16]+
		" depositor ann by ann: left on a shared machine: again\n") {
		t.Errorf("%v: %s", err, text)
	}
}
