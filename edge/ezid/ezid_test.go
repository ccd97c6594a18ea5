package ezid_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/edge/ezid"
	"github.com/stagepost/stagepost/edge/ezid/ezidtest"
)

func client(s *ezidtest.Server) *ezid.Client {
	address := strings.Replace(s.ShoulderURL(), ezidtest.User+"@", ezidtest.User+":"+ezidtest.Password+"@", 1)
	return &ezid.Client{Shoulder: address, HTTP: &http.Client{Timeout: time.Minute}}
}

// TestLifeOfAnIdentifier mints, publishes and updates, with values that ANVL has to encode.
func TestLifeOfAnIdentifier(t *testing.T) {
	s := ezidtest.New(t)
	c := client(s)
	ark, err := c.Mint(t.Context(), []ezid.Element{{Name: ezid.Status, Value: ezid.Public},
		{Name: ezid.Profile, Value: "erc"}})
	if err != nil || !strings.HasPrefix(ark, ezidtest.Shoulder) {
		t.Fatalf("got %s, %v", ark, err)
	}
	if got := s.Record(ark)[ezid.Status]; got != ezid.Reserved {
		t.Errorf("minted as %s", got)
	}
	const odd = "who: Ü%41 100%\r\nwhat: a: b\n"
	target := "https://repository.example.org/m/ark%3A%2F99999%2Ffk4"
	err = c.Update(t.Context(), ark, []ezid.Element{{Name: ezid.Status, Value: ezid.Public}, {Name: "erc", Value: odd},
		{Name: "a:b", Value: "c"}, {Name: ezid.Target, Value: target}})
	if err != nil {
		t.Fatal(err)
	}
	got := s.Record(ark)
	if got["erc"] != strings.TrimSpace(odd) || got["a:b"] != "c" || got[ezid.Target] != target ||
		got[ezid.Status] != ezid.Public ||
		got[ezid.Profile] != "erc" {
		t.Errorf("got %q", got)
	}
	if err := c.Update(t.Context(), ark, []ezid.Element{{Name: "erc", Value: "who: B"}}); err != nil {
		t.Fatal(err)
	}
	if got := s.Record(ark); got["erc"] != "who: B" || got[ezid.Target] != target {
		t.Errorf("got %q", got)
	}
}

// TestUnknownIdentifierIsCreated updates one that EZID does not have, and one that is not of the user's.
func TestUnknownIdentifierIsCreated(t *testing.T) {
	s := ezidtest.New(t)
	c := client(s)
	ark := ezidtest.Shoulder + "given"
	if err := c.Update(t.Context(), ark, []ezid.Element{{Name: "erc.who", Value: "A"}}); err != nil {
		t.Fatal(err)
	}
	if got := s.Record(ark); got["erc.who"] != "A" || got[ezid.Status] != ezid.Public {
		t.Errorf("got %q", got)
	}
	if all := s.Requests(); len(all) != 2 || !strings.HasPrefix(all[1], "PUT /id/") ||
		!strings.HasSuffix(all[1], "?update_if_exists=yes") {
		t.Errorf("got %q", all)
	}
	var refused *ezid.Error
	err := c.Update(t.Context(), "ark:/12345/foreign", []ezid.Element{{Name: "erc.who", Value: "A"}})
	if !errors.As(err, &refused) || refused.Status != http.StatusForbidden || refused.Temporary() {
		t.Errorf("got %v", err)
	}
}

// TestAnswers reads what EZID, or something else at its address, answers.
func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		status    int
		text      string
		want, err string
		again     bool
	}{
		"control":            {201, "success: ark:/99999/fk4x\n", "ark:/99999/fk4x", "", false},
		"with metadata":      {200, "success: ark:/99999/fk4x\nerc.who: A\n", "ark:/99999/fk4x", "", false},
		"a shadow ARK":       {201, "success: doi:10.5072/FK2X | ark:/b5072/fk2x", "ark:/b5072/fk2x", "", false},
		"no ARK":             {201, "success: doi:10.5072/FK2X", "", "gave no ARK", false},
		"bad request":        {400, "error: bad request - no such shoulder created", "", "no such shoulder created", false},
		"unauthorized":       {401, "error: unauthorized", "", "401: unauthorized", false},
		"busy":               {503, "error: concurrency limit exceeded", "", "concurrency limit", true},
		"broken":             {500, "error: internal server error", "", "internal server error", true},
		"an error with 200":  {200, "error: internal server error", "", "internal server error", false},
		"a success with 500": {500, "success: ark:/99999/fk4x", "", "no answer of EZID", true},
		"a page":             {200, "<html>login</html>", "", "no answer of EZID", false},
		"nothing":            {200, "", "", "no answer of EZID", false},
		"much":               {200, strings.Repeat("x", 1<<20), "", "no answer of EZID", false},
		"too many":           {429, "error: slow down", "", "slow down", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := ezidtest.New(t)
			s.Next(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.text)
			})
			got, err := client(s).Mint(t.Context(), nil)
			var refused *ezid.Error
			if got != c.want || (err == nil) != (c.err == "") || err != nil && (!errors.As(err, &refused) ||
				!strings.Contains(err.Error(), c.err) || refused.Temporary() != c.again || len(err.Error()) > 500) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// TestWrongCredentials names no password in an error.
func TestWrongCredentials(t *testing.T) {
	s := ezidtest.New(t)
	for _, address := range []string{
		strings.Replace(s.ShoulderURL(), "@", ":wrong@", 1), "http://u:wrong@127.0.0.1:1/shoulder/ark:/1/2",
		"http://u:wrong@host\x7f/", "http://u:wrong@localhost/other",
	} {
		c := &ezid.Client{Shoulder: address, HTTP: &http.Client{Timeout: time.Minute}}
		_, err := c.Mint(t.Context(), nil)
		again := c.Update(t.Context(), "ark:/1/2", nil)
		if err == nil || again == nil || strings.Contains(err.Error()+again.Error(), "wrong") {
			t.Errorf("%v, %v", err, again)
		}
	}
}

// TestUpdateOfAnother refuses an answer about another identifier.
func TestUpdateOfAnother(t *testing.T) {
	s := ezidtest.New(t)
	s.Next(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "success: ark:/99999/fk4other") })
	if err := client(s).Update(t.Context(), "ark:/99999/fk4x", nil); err == nil || !strings.Contains(err.Error(),
		"fk4other") {
		t.Errorf("got %v", err)
	}
}

// TestEncodeRefusesNamelessElements: the control is in the other tests.
func TestEncodeRefusesNamelessElements(t *testing.T) {
	if text, err := ezid.Encode([]ezid.Element{{Name: " ", Value: "x"}}); err == nil {
		t.Errorf("got %q", text)
	}
}
