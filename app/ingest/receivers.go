package ingest

import (
	"fmt"
	netmail "net/mail"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/edge/mail"
)

// receivers are those who get a mail.
type receivers struct {
	To  []string `json:"to"`
	Cc  []string `json:"cc,omitempty"`
	Bcc []string `json:"bcc,omitempty"`
}

func (r *receivers) nobody() bool { return len(r.To)+len(r.Cc)+len(r.Bcc) == 0 }

// whom gives those who are told of a batch: the depositor's own addresses, else the profile's; besides them those whom the profile wants told
// always, those whom it wants told of failures, and, unseen by the others, its administrators. Nobody gets a mail twice.
func whom(p *profile.Profile, s *Submission, failed bool) receivers {
	r := receivers{To: p.Notification, Cc: p.NotifyAlso, Bcc: p.NotifyAdmins}
	if own, err := addresses(s.Notification); err == nil && len(own) > 0 { // a mistake was refused with the submission
		r.To = own
	}
	if failed {
		r.Cc = slices.Concat(p.NotifyAlso, p.NotifyFailure)
	}
	seen := map[string]bool{}
	for _, list := range []*[]string{&r.To, &r.Cc, &r.Bcc} {
		*list = slices.DeleteFunc(slices.Clone(*list), func(one string) bool {
			a, err := netmail.ParseAddress(one)
			if err != nil {
				return true
			}
			key := strings.ToLower(a.Address)
			was := seen[key]
			seen[key] = true
			return was
		})
	}
	if len(r.To) == 0 {
		r.To, r.Cc = r.Cc, nil
	}
	return r
}

// maxOwn bounds the addresses of one submission.
const maxOwn = 20

// addresses reads the addresses of a submission, separated by commas. What it gives can be sent to.
func addresses(text string) ([]string, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	list, err := netmail.ParseAddressList(text)
	if err != nil {
		return nil, err
	}
	if len(list) > maxOwn {
		return nil, fmt.Errorf("%d addresses, at most %d", len(list), maxOwn)
	}
	var all []string
	for _, one := range list {
		if err := mail.CheckAddress(one.String()); err != nil {
			return nil, err
		}
		all = append(all, one.String())
	}
	return all, nil
}
