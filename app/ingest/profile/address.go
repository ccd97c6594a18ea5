package profile

import "github.com/stagepost/stagepost/edge/mail"

// maxAddresses bounds the addresses of a profile, all lists together; with those of a submission they are fewer than
// a mail may have.
const maxAddresses = 50

// completeAddresses refuses what no mail could be sent to, when the profile is loaded rather than when the first
// report is due.
func (p *Profile) completeAddresses(f *faults) {
	if p.ReplyTo != "" {
		if err := mail.CheckAddress(p.ReplyTo); err != nil {
			f.add("reply_to", "%s", err)
		}
	}
	n := 0
	for _, list := range []struct {
		key   string
		addrs []string
	}{
		{"notification", p.Notification}, {"notification_additional", p.NotifyAlso},
		{"notification_failure", p.NotifyFailure},
		{"notification_bcc", p.NotifyAdmins},
	} {
		for i, a := range list.addrs {
			if err := mail.CheckAddress(a); err != nil {
				f.add(at(list.key, i), "%s", err)
			}
			if n++; n == maxAddresses+1 {
				f.add(list.key, "more than %d addresses in all", maxAddresses)
			}
		}
	}
}
