package profile

import (
	"fmt"
	"strings"
	"testing"
)

// TestAddressesAreCheckedAtLoad: what no mail could be sent to is refused with its key, before a report is due.
func TestAddressesAreCheckedAtLoad(t *testing.T) {
	keys := map[string]func(*Profile, []string){
		"notification":            func(p *Profile, a []string) { p.Notification = a },
		"notification_additional": func(p *Profile, a []string) { p.NotifyAlso = a },
		"notification_failure":    func(p *Profile, a []string) { p.NotifyFailure = a },
		"notification_bcc":        func(p *Profile, a []string) { p.NotifyAdmins = a },
	}
	for key, set := range keys {
		for _, bad := range []string{"curator", "a@b\r\nBcc: c@example.org", "x@example.org, y@example.org",
			"team: a@example.org;", "-o@example.org", ""} {
			p := Profile{ID: "maps"}
			set(&p, []string{"ann@example.org", bad})
			if _, err := New(p); err == nil || !strings.Contains(err.Error(), key) {
				t.Errorf("%s with %q: got %v", key, bad, err)
			}
		}
		p := Profile{ID: "maps"}
		set(&p, []string{"ann@example.org", "Bo Lee <bo@example.org>"})
		if _, err := New(p); err != nil {
			t.Errorf("control, %s: %v", key, err)
		}
	}
	var many []string
	for i := range maxAddresses {
		many = append(many, fmt.Sprintf("a%d@example.org", i))
	}
	if _, err := New(Profile{ID: "maps", Notification: many}); err != nil {
		t.Errorf("control: %v", err)
	}
	if _, err := New(Profile{ID: "maps", Notification: many, NotifyAdmins: []string{"one@example.org"}}); err == nil ||
		!strings.Contains(err.Error(), "more than 50") {
		t.Errorf("got %v", err)
	}
}
