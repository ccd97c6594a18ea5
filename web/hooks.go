package web

import (
	"net/http"
	"net/url"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/openapi"
	"github.com/stagepost/stagepost/web/amount"
)

// hookPages are the pages about the webhooks of an application.
type hookPages struct {
	*Pages
	at, api string
}

// HookRoutes lists the pages at a path about a delivery log, which has its operations (package hooks) below the path
// api.
func HookRoutes(s *server.Server, at, api string) []server.Route {
	h := hookPages{&Pages{s, own}, at, api}
	return []server.Route{
		PageRoute(at, server.Operator, "A page with the webhooks: the last result of each receiver, and the delivery "+
			"log: job, status, after.", openapi.Query("job", "status", "after", "limit"), h.Show("hooks.html", h.page)),
		FormRoute(at+"/replay", server.Operator, "Sends notifications again.", h.Post(h.replay)),
	}
}

// hooksView is what the page shows.
type hooksView struct {
	At        string // path of the page
	Receivers []receiverRow
	Log       []hookRow
	Filter    url.Values
	Statuses  []choice
	Abandoned int // among the newest
	Next      string
	Acts      bool // the reader may send again
}

// receiverRow is a receiver with its last result.
type receiverRow struct {
	Name, Host string
	Last       hookRow
	Pending    int
	Abandoned  int
}

type hookRow struct {
	api.Hook
	Tone  Tone
	When  string
	Again string // in how long it is tried again
}

func (h hookPages) page(r *http.Request) (*Frame, error) {
	q := Given(r.URL.Query())
	var log, newest api.Hooks
	if err := h.Get(r, With(h.api, q), &log); err != nil {
		return nil, err
	}
	if err := h.Get(r, With(h.api, url.Values{"limit": {"1000"}}), &newest); err != nil {
		return nil, err
	}
	now := h.Engine.Clock().Now()
	v := hooksView{At: h.at, Filter: q, Receivers: receiversOf(now, newest.Hooks),
		Acts: h.Permits(r, http.MethodPost, h.api+"/replay")}
	for _, s := range []string{"pending", "delivered", "abandoned"} {
		v.Statuses = append(v.Statuses, choice{s, s, q.Get("status") == s})
	}
	for _, one := range v.Receivers {
		v.Abandoned += one.Abandoned
	}
	for i := range log.Hooks {
		v.Log = append(v.Log, hookRowOf(now, &log.Hooks[i]))
	}
	if log.Next != "" {
		v.Next = With(h.at, changed(q, "after", log.Next))
	}
	return &Frame{Title: "Webhooks", Body: v, Lead: "Notifications to other systems. One that is not accepted " +
		"is tried again, and abandoned in the end; a person can send it again."}, nil
}

// receiversOf sums up the newest notifications, the newest first, by receiver.
func receiversOf(now time.Time, newest []api.Hook) (all []receiverRow) {
	at := map[[3]string]int{}
	for i := range newest {
		one := &newest[i]
		key := [3]string{one.Profile, one.Hook, one.Host}
		n, known := at[key]
		if !known {
			n, at[key] = len(all), len(all)
			name := one.Hook
			if one.Profile != "" {
				name = one.Profile + ": " + one.Hook
			}
			all = append(all, receiverRow{Name: name, Host: one.Host, Last: hookRowOf(now, one)})
		}
		switch one.Status {
		case "pending":
			all[n].Pending++
		case "abandoned":
			all[n].Abandoned++
		}
	}
	return all
}

func hookRowOf(now time.Time, one *api.Hook) hookRow {
	row := hookRow{Hook: *one, Tone: Waiting, When: amount.Ago(now, one.Created)}
	switch {
	case one.Status == "delivered":
		row.Tone = Good
	case one.Status == "abandoned":
		row.Tone = Bad
	case one.Error != "":
		row.Tone = Held
	}
	if one.Status == "pending" && !one.Due.IsZero() {
		row.Again = amount.Ago(now, one.Due)
	}
	return row
}

// replay sends the selected notifications again, or all that were abandoned.
func (h hookPages) replay(r *http.Request, form *Form) (to, done string, err error) {
	b := api.ReplayHooks{Keys: form.All("key"), Failed: form.Checked("failed"), Note: form.Line("note")}
	if err := form.Err(); err != nil {
		return "", "", err
	}
	var sent api.ReplayedHooks
	if err := h.Send(r, http.MethodPost, h.api+"/replay", b, &sent); err != nil {
		return "", "", err
	}
	return h.at, numbered(len(sent.Keys), "notification is", "notifications are") + " sent again", nil
}
