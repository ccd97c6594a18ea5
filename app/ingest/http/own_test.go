package ingesthttp_test

import (
	"strings"
	"testing"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestSubmissionsAreOwn compares the owner of a submission with the token, and a key leads to no job of another owner.
func TestSubmissionsAreOwn(t *testing.T) {
	g := servertest.Guard(t, part)
	submit := func(secret, submitter, key string) (client.Job, error) {
		c, err := client.New(g.Web.URL, client.Options{Token: client.NewSecret(secret)})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.Submit(t.Context(), client.Submission{Submitter: submitter, Key: key}, strings.NewReader("x"))
	}
	for _, c := range []struct{ secret, said, want string }{
		{g.Tokens[identity.Depositor], "bob", "ann"}, {g.Tokens[identity.Depositor], "", "ann"}, {g.Tokens[identity.Operator], "bob",
			"bob"}, {g.Tokens[identity.Operator], "", "operator"},
	} {
		if j, err := submit(c.secret, c.said, ""); err != nil || j.Owner != c.want {
			t.Errorf("given %q: got %q, %v, want %q", c.said, j.Owner, err, c.want)
		}
	}
	first, err := submit(g.Bob, "", "k")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := submit(g.Bob, "", "k"); err != nil || again.ID != first.ID {
		t.Errorf("got %s, %v", again.ID, err)
	}
	if j, err := submit(g.Tokens[identity.Depositor], "", "k"); err != nil || j.ID == first.ID || j.Owner != "ann" {
		t.Errorf("got %s of %s, %v", j.ID, j.Owner, err)
	}
}
