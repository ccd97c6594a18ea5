package ingest

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/edge/ezid/ezidtest"
)

// atEZID is a profile whose identifiers are EZID's.
func atEZID(t *testing.T, s *ezidtest.Server) profile.Profile {
	t.Helper()
	password := filepath.Join(t.TempDir(), "ezid.password")
	if err := os.WriteFile(password, []byte(ezidtest.Password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := testProfile()
	p.Minter = profile.Minter{Form: profile.MinterEZID, URL: s.ShoulderURL(), PasswordFile: password,
		Target: "https://archive.example.org/m/", Coowner: "library"}
	return p
}

// TestEZID mints an identifier, describes and publishes it, and updates the description with the next version.
func TestEZID(t *testing.T) {
	s := ezidtest.New(t)
	w := start(t, atEZID(t, s))
	j := w.one(Submission{Title: "Map: 100 % of it", Creator: "Ü. Person", Date: "1857",
		LocalIDs: []string{"maps-17"}}, "one")
	if all := s.Minted(); len(all) != 1 || all[0] != j.ARK {
		t.Fatalf("minted %q, the object is %s", all, j.ARK)
	}
	got := s.Record(j.ARK)
	want := "who: Ü. Person\nwhat: Map: 100 %25 of it\nwhen: 1857\nwhere: " + j.ARK + "\nwhere: maps-17"
	if got["erc"] != want || got["_status"] != "public" || got["_profile"] != "erc" || got["_owner"] != "library" ||
		got["_target"] != "https://archive.example.org/m/"+strings.NewReplacer(":", "%3A", "/", "%2F").Replace(j.ARK) {
		t.Errorf("got %q, want erc %q", got, want)
	}
	again := w.one(Submission{Title: "Another title", PrimaryID: j.ARK, Update: true}, "two")
	if got := s.Record(j.ARK)["erc"]; again.ARK != j.ARK || !strings.Contains(got, "what: Another title\n") ||
		!strings.Contains(got, "who: Ü. Person\n") {
		t.Errorf("after the update: %q", got)
	}
	if len(s.Minted()) != 1 {
		t.Errorf("an update minted: %q", s.Minted())
	}
}

// TestEZIDRetainsTheTarget leaves the target as it is where the submission requires that.
func TestEZIDRetainsTheTarget(t *testing.T) {
	s := ezidtest.New(t)
	w := start(t, atEZID(t, s))
	j := w.one(Submission{RetainTarget: true}, "one")
	if got, set := s.Record(j.ARK)["_target"]; set {
		t.Errorf("the target is %s", got)
	}
	w.one(Submission{PrimaryID: j.ARK, Update: true}, "control")
	if s.Record(j.ARK)["_target"] == "" {
		t.Error("control: no target")
	}
}

// TestEZIDReserves keeps identifiers of administrative objects, and of profiles that ask for it, from the public.
func TestEZIDReserves(t *testing.T) {
	for name, change := range map[string]func(*profile.Profile){
		"status":    func(p *profile.Profile) { p.Minter.Status = "reserved" },
		"aggregate": func(p *profile.Profile) { p.Aggregate = "MRT-collection" },
	} {
		t.Run(name, func(t *testing.T) {
			s := ezidtest.New(t)
			p := atEZID(t, s)
			change(&p)
			w := start(t, p)
			j := w.one(Submission{}, "one")
			if got := s.Record(j.ARK); got["_status"] != "reserved" || got["_export"] != "no" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestEZIDTakesGivenIdentifiers describes an ARK of a depositor that EZID did not have.
func TestEZIDTakesGivenIdentifiers(t *testing.T) {
	s := ezidtest.New(t)
	w := start(t, atEZID(t, s))
	ark := ezidtest.Shoulder + "given"
	w.one(Submission{PrimaryID: ark, Title: "Given"}, "one")
	if got := s.Record(ark); !strings.Contains(got["erc"], "what: Given\n") || len(s.Minted()) != 0 {
		t.Errorf("got %q, minted %q", got, s.Minted())
	}
}

// TestEZIDIsAway tries again after failures that pass, and mints no public identifier for an answer that was lost.
func TestEZIDIsAway(t *testing.T) {
	s := ezidtest.New(t)
	busy := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte("error: concurrency limit exceeded"))
	}
	lost := func(_ http.ResponseWriter, r *http.Request) {
		s.Handle(&void{http.Header{}}, r)
		panic(http.ErrAbortHandler)
	}
	s.Next(busy, lost, s.Handle, busy, s.Handle)
	w := start(t, atEZID(t, s))
	j := w.one(Submission{}, "one")
	all := s.Minted()
	if len(all) != 2 || all[1] != j.ARK || s.Record(all[0])["_status"] != "reserved" ||
		s.Record(j.ARK)["_status"] != "public" {
		t.Errorf("minted %q, the object is %s: %q", all, j.ARK, s.Record(all[0]))
	}
}

// void is an answer that is lost.
type void struct{ header http.Header }

func (v *void) Header() http.Header       { return v.header }
func (*void) Write(b []byte) (int, error) { return len(b), nil }
func (*void) WriteHeader(int)             {}

// TestEZIDRefuses fails jobs with EZID's reason: no retry changes it.
func TestEZIDRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*profile.Profile)
		s      Submission
		has    string
	}{
		"a wrong password": {func(p *profile.Profile) {
			if err := os.WriteFile(p.Minter.PasswordFile, []byte("wrong"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, Submission{}, "401: unauthorized"},
		"no such shoulder": {func(p *profile.Profile) {
			p.Minter.URL = strings.Replace(p.Minter.URL, "/fk4", "/zz9",
				1)
		},
			Submission{}, "no such shoulder created"},
		"an identifier of others": {func(*profile.Profile) {}, Submission{PrimaryID: "ark:/12345/x"}, "403: forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			s := ezidtest.New(t)
			p := atEZID(t, s)
			c.change(&p)
			w := start(t, p)
			r := w.ingest(c.s, "one")
			if len(r.Jobs) != 1 || r.Jobs[0].State != record.Failed || r.Jobs[0].Cause != CauseMinter ||
				!strings.Contains(r.Jobs[0].Message, c.has) || strings.Contains(r.Text(), "wrong") {
				t.Errorf("got %s", r.Text())
			}
		})
	}
}
