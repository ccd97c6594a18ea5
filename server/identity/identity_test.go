package identity

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

// source accepts, refuses or ignores requests by a header field.
type source struct{ field string }

var errRevoked = errors.New("revoked")

func (s source) Identify(r *http.Request) (Identity, error) {
	switch name := r.Header.Get(s.field); name {
	case "":
		return Identity{}, ErrNone
	case "revoked":
		return Identity{}, errRevoked
	default:
		return Identity{Name: name, Key: Key{s.field[0]}}, nil
	}
}

func (s source) Valid(who *Identity) bool { return who.Key[0] == s.field[0] }

func (s source) Fault() error { return nil }

// TestSources: the first credential decides, and one that is refused is not replaced by another.
func TestSources(t *testing.T) {
	all := Sources{source{"A"}, source{"B"}}
	for _, c := range []struct {
		a, b, want string
		err        error
	}{
		{"ann", "bob", "ann", nil}, {"", "bob", "bob", nil}, {"", "", "", ErrNone}, {"revoked", "bob", "", errRevoked},
		{"ann", "revoked", "ann", nil},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("A", c.a)
		r.Header.Set("B", c.b)
		who, err := all.Identify(r)
		if who.Name != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q %q: got %q, %v, want %q, %v", c.a, c.b, who.Name, err, c.want, c.err)
		}
	}
	if !all.Valid(&Identity{Key: Key{'B'}}) || all.Valid(&Identity{Key: Key{'C'}}) {
		t.Error("the key of a source is valid in it, and in no other")
	}
}

func TestSees(t *testing.T) {
	for _, c := range []struct {
		who          Identity
		owner, group string
		want         bool
	}{
		{Identity{Name: "ann", Role: Depositor}, "ann", "maps", true},
		{Identity{Name: "ann", Role: Depositor}, "bob", "maps", false},
		{Identity{Name: "ann", Role: Depositor, Groups: "maps"}, "ann", "photos", false},
		{Identity{Name: "otto", Role: Operator}, "bob", "maps", true},
		{Identity{Name: "otto", Role: Operator, Groups: "maps,photos"}, "bob", "photos", true},
		{Identity{Name: "otto", Role: Operator, Groups: "maps,photos"}, "bob", "photo", false},
		{Identity{Name: "otto", Role: Operator, Groups: "maps"}, "otto", "", false},
	} {
		if got := c.who.Sees(c.owner, c.group); got != c.want {
			t.Errorf("%s %s of %q in %q: got %v", c.who.Role, c.who.Groups, c.owner, c.group, got)
		}
	}
}

// TestDisplay: a name to show may be spelled with joiners. The name for records may not.
func TestDisplay(t *testing.T) {
	spelled := "\u0639\u0644\u06cc\u200c\u0631\u0636\u0627"
	if err := ValidateDisplay(spelled + " \u0645"); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{"Ad\u200cmin", "\u202eAnn", "Ann\n", "\xff"} {
		if ValidateDisplay(wrong) == nil {
			t.Errorf("%+q was accepted", wrong)
		}
	}
	if ValidateName(spelled) == nil {
		t.Error("two names for records may differ by what is not seen")
	}
}

func TestScopes(t *testing.T) {
	for _, text := range []string{"depositor", "operator:maps,photos", "worker:test.letter/Posted", "auditor",
		"admin"} {
		role, groups, work, err := ReadScope(text)
		if err != nil || WriteScope(role, groups, work) != text {
			t.Errorf("%s: got %s %s %s, %v", text, role, groups, work, err)
		}
	}
	if role, _, _, err := ReadScope("user"); role != Depositor || err != nil {
		t.Errorf("the name of earlier versions: got %s, %v", role, err)
	}
	for _, text := range []string{"", "root", "Admin", "admin:maps", "auditor:maps", "operator:", "operator:a,,b",
		"operator:a b", "depositor:a:b", "worker:/x"} {
		if _, _, _, err := ReadScope(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}
