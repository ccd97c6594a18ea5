package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/store/mem"
)

// TestClockIsConfirmed: health warns of a clock in doubt until a person confirms it with a reason.
func TestClockIsConfirmed(t *testing.T) {
	for doubt, at := range map[string]time.Time{
		clock.Ahead: time.Now().AddDate(-1, 0, 0), clock.Behind: time.Now().AddDate(1, 0, 0),
		"": time.Now().Add(-time.Hour),
	} {
		t.Run("clock "+doubt, func(t *testing.T) {
			store := mem.New()
			if err := store.KeepClock(t.Context(), job.KeptClock{Trusted: at, Latest: at}); err != nil {
				t.Fatal(err)
			}
			e, err := engine.New(store, []engine.Work{{Life: servertest.Letter, Prefix: "let", Outside: true}},
				engine.Options{})
			if err != nil {
				t.Fatal(err)
			}
			w := servertest.Open(t, func(o *server.Options) { o.Engine = e }, nil)
			h, err := w.Client.Health(t.Context())
			if warned := strings.Contains(strings.Join(h.Warnings, "\n"),
				"stagepost admin clock --confirm"); err != nil || warned != (doubt != "") {
				t.Errorf("health has the warnings %q, %v", h.Warnings, err)
			}
			c, err := w.Client.Clock(t.Context())
			if err != nil || c.Doubt != doubt || (c.Seconds != 0) != (doubt != "") {
				t.Errorf("got %+v, %v", c, err)
			}
			if _, err := w.Client.ConfirmClock(t.Context(), client.ConfirmClock{}); job.KindOf(err) != job.Invalid {
				t.Errorf("without a note: %v", err)
			}
			c, err = w.Client.ConfirmClock(t.Context(),
				client.ConfirmClock{Note: "asked the time server", Actor: "ann"})
			if doubt == "" {
				w.Problem(w.Request(http.MethodPost, "/api/v1/admin/clock", `{"note": "again"}`), http.StatusConflict,
					job.Refused)
				return
			}
			if err != nil || c.Doubt != "" || (c.Confirmed != nil) != (doubt == clock.Ahead) ||
				c.Restart != (doubt == clock.Behind) {
				t.Errorf("confirmed: %+v, %v", c, err)
			}
			if h, err = w.Client.Health(t.Context()); err != nil || len(h.Warnings) > 0 {
				t.Errorf("health has the warnings %q, %v", h.Warnings, err)
			}
			list, err := w.Client.Audit(t.Context(), client.AuditQuery{Limit: 1})
			if err != nil || len(list.Entries) != 1 || list.Entries[0].Event != "confirm-clock" ||
				list.Entries[0].Actor != "ann" {
				t.Errorf("audit: %+v, %v", list, err)
			}
		})
	}
}
