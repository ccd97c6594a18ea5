package inventory

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func deposit(t *testing.T, i *Inventory, job, user, profile string, version int, localIDs ...string) string {
	t.Helper()
	c := Claim{Taker: Taker{Job: job}, Owner: "o", LocalIDs: localIDs, Template: template(t), Depositor: user,
		Profile: profile}
	n := name(t, i, c)
	err := i.Record(t.Context(), Entry{
		Object: Object{ARK: n.ARK, Owner: "o",
			Profile: profile}, Job: job, Submitter: user, Version: version, At: time.Unix(1_700_000_000, 0),
	}, func(func(File, error) bool) {})
	if err != nil {
		t.Fatal(err)
	}
	return n.ARK
}

// TestPermitOfNames asks for names as the depositor, as a stranger, as an updater of the profile and without a user, of
// objects that are recorded and of ones that only have an identifier.
func TestPermitOfNames(t *testing.T) { inEach(t, testPermitOfNames) }

func testPermitOfNames(t *testing.T, open opener) {
	i := open.new(t)
	stored := deposit(t, i, "a", "ann", "maps", 1, "l1")
	deposit(t, i, "c", "carol", "maps", 2, "l1") // a user permitted: the depositor stays
	underway := name(t, i, Claim{Taker: Taker{Job: "b"}, Owner: "o", LocalIDs: []string{"l2"}, Template: template(t),
		Depositor: "ann", Profile: "maps"}).ARK
	for _, permit := range []struct {
		Permit
		want bool
	}{
		{Permit{}, true}, {Permit{User: "ann"}, true}, {Permit{User: "bob"}, false}, {Permit{User: "carol"}, false},
		{Permit{User: "bob", Profiles: []string{"charts"}},
			false}, {Permit{User: "bob", Profiles: []string{"charts", "maps"}}, true},
		{Permit{Within: []string{"maps", "charts"}}, true}, {Permit{Within: []string{"charts"}}, false},
		{Permit{Within: []string{}}, false}, {Permit{User: "ann", Within: []string{"charts"}}, false},
		{Permit{User: "ann", Within: []string{"maps"}}, true},
	} {
		for what, c := range map[string]Claim{
			"stored, local id": {LocalIDs: []string{"l1"}}, "stored, ark": {Given: stored},
			"stored, both": {Given: stored, LocalIDs: []string{"l1"}},
			"underway, local id": {LocalIDs: []string{"new",
				"l2"}}, "underway, ark": {Given: underway}, "contradiction": {Given: "ark:/99999/x",
				LocalIDs: []string{"l1"}},
		} {
			c.Job, c.Owner, c.Permit, c.Depositor, c.Profile = "x "+what+permit.User+strings.Join(permit.Profiles,
				",")+fmt.Sprintf("%#v", permit.Within), "o", permit.Permit, permit.User, "charts"
			_, err := i.Name(t.Context(), c)
			want := permit.want
			if what == "contradiction" && want {
				if !errors.Is(err, ErrConflict) {
					t.Errorf("%s of %+v: got %v", what, permit.Permit, err)
				}
				continue
			}
			if want && err != nil || !want && !errors.Is(err, ErrUnknown) {
				t.Errorf("%s of %+v: got %v", what, permit.Permit, err)
			}
			if err != nil && what != "stored, ark" && what != "stored, both" && strings.Contains(err.Error(), stored) {
				t.Errorf("%s: the error names the ARK: %v", what, err)
			}
			early := i.Permitted(t.Context(), permit.Permit, "o", c.Given, c.LocalIDs)
			if want && early != nil || !want && !errors.Is(early, ErrUnknown) {
				t.Errorf("%s of %+v before: got %v", what, permit.Permit, early)
			}
		}
	}
	if err := i.Permitted(t.Context(), Permit{User: "bob"}, "o", "ark:/99999/new", []string{"nothing"}); err != nil {
		t.Errorf("what is not in use is free: %v", err)
	}
}

// TestPermitOfQueries lists objects: users have their own and those of the profiles that name them.
func TestPermitOfQueries(t *testing.T) { inEach(t, testPermitOfQueries) }

func testPermitOfQueries(t *testing.T, open opener) {
	i := open.new(t)
	his, hers, other := deposit(t, i, "a", "bob", "maps", 1), deposit(t, i, "b", "ann", "maps", 1), deposit(t, i, "c",
		"ann", "charts", 1)
	for _, c := range []struct {
		permit Permit
		want   []string
	}{
		{Permit{}, []string{his, hers, other}}, {Permit{User: "ann"}, []string{hers, other}}, {Permit{User: "bob"},
			[]string{his}},
		{Permit{User: "bob", Profiles: []string{"charts"}}, []string{his, other}}, {Permit{User: "carol"}, nil},
	} {
		all, err := i.Objects(t.Context(), Query{Permit: c.permit})
		got := map[string]bool{}
		for _, o := range all {
			got[o.ARK] = true
		}
		if err != nil || len(got) != len(c.want) {
			t.Errorf("%+v: got %v, %v", c.permit, got, err)
		}
		for _, ark := range c.want {
			if !got[ark] {
				t.Errorf("%+v: %s is missing", c.permit, ark)
			}
			if one, err := i.Objects(t.Context(), Query{ARK: ark, Permit: Permit{User: "eve"}}); err != nil ||
				len(one) > 0 {
				t.Errorf("eve got %v, %v", one, err)
			}
		}
	}
}
