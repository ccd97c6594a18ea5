package notify

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/url"
	"slices"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
)

// Describe completes an entry of the delivery log by the body of its message.
func (n *Notifier) Describe(body json.RawMessage, into *api.Hook) {
	var p posted
	_ = json.Unmarshal(body, &p) // a body that cannot be read is shown without its content
	into.Type, into.Hook, into.Payload = p.Type, p.Hook, p.Body
	if w := n.o.Webhooks()[p.Hook]; w != nil {
		into.Host = w.host()
	}
}

// host gives the host of the address, which may be shown where the rest may be secret.
func (w *Webhook) host() string {
	u, err := url.Parse(w.URL)
	if err != nil {
		return ""
	}
	return u.Host
}

// pinged is the data of a notification of type ping.
type pinged struct {
	Hook string `json:"hook"`
}

// Ping sends a notification of type ping to each webhook, or to the one that is named, once and at once. Without such a
// webhook it is of kind NotFound.
func (n *Notifier) Ping(ctx context.Context, hook string) ([]api.Ping, error) {
	hooks := n.o.Webhooks()
	all := []api.Ping{}
	for _, name := range slices.Sorted(maps.Keys(hooks)) {
		if hook != "" && name != hook {
			continue
		}
		began, w := n.o.Now(), hooks[name]
		one := api.Ping{Hook: name, Host: w.host(), ID: "ping/" + rand.Text()}
		keys, err := Secrets(w.SecretFile)
		if err == nil {
			err = n.sender.Send(ctx, w.URL, one.ID, began, n.event(one.ID, "ping", "", began, pinged{name}), keys...)
		}
		if err != nil {
			one.Error = err.Error()
		}
		one.Took = n.o.Now().Sub(began).Milliseconds()
		all = append(all, one)
	}
	if len(all) == 0 {
		return nil, job.Errorf(job.NotFound, "ping", "", "there is no webhook %.100q: add it to webhooks in the file "+
			"of archive.config", hook)
	}
	return all, nil
}
