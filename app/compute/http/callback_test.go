package computehttp_test

import (
	"crypto/rand"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/edge/webhook"
	"github.com/stagepost/stagepost/job"
)

// TestCallbackInAnOrder: it is refused with a reason where the service does not allow it, part of what an idempotency
// key stands for, shown with the job, kept by a retry, and changed by a clone alone.
func TestCallbackInAnOrder(t *testing.T) {
	text, err := webhook.NewSecret(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := webhook.ParseSecret(text)
	if err != nil {
		t.Fatal(err)
	}
	c := openCompute(t, func(o *compute.Options, _ *options) {
		o.Services = slices.Clone(o.Services)
		o.Services[1].Callbacks = &compute.Callbacks{Hosts: []string{"hook.invalid"},
			Secrets: func() ([]webhook.Secret, error) { return []webhook.Secret{secret}, nil }}
	})
	const url = "https://hook.invalid/done"
	for service, want := range map[string]string{"small": "sends none", "wide": "hook.invalid only, not to 127.0.0.1:7433"} {
		_, err := c.Client.SubmitCompute(t.Context(), client.ComputeOrder{Service: service,
			Command: &client.ComputeCommand{Words: []string{"true"}}, Callback: "http://127.0.0.1:7433/api"}, nil, nil)
		if job.KindOf(err) != job.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", service, err, want)
		}
	}
	first := c.order(client.ComputeOrder{Key: "k", Callback: url}, compute.Script, "true\n")
	if got, err := c.Client.ComputeJob(t.Context(), first.ID); err != nil || got.Callback != url {
		t.Errorf("it is sent to %q, %v", got.Callback, err)
	}
	if same := c.order(client.ComputeOrder{Key: "k", Callback: url}, compute.Script, "true\n"); same.ID != first.ID {
		t.Errorf("a second job %s", same.ID)
	}
	other := client.ComputeOrder{Service: "wide", Key: "k", Callback: url + "/else",
		Files: []client.ComputeInline{{Name: compute.Script, Text: "true\n"}}}
	if _, err := c.Client.SubmitCompute(t.Context(), other, nil, nil); job.KindOf(err) != job.Conflict {
		t.Errorf("another callback under the same key: %v", err)
	}
	if _, err := c.Client.CancelCompute(t.Context(), first.ID, client.Act{As: "owner"}); err != nil {
		t.Fatal(err)
	}
	c.ended(first.ID)
	none, elsewhere := "", url+"/else"
	if _, err := c.Client.RetryCompute(t.Context(), first.ID, client.ComputeRepeat{Confirm: true}); err != nil {
		t.Fatal(err)
	}
	for want, r := range map[string]client.ComputeRepeat{url: {}, none: {Callback: &none},
		elsewhere: {Callback: &elsewhere}} {
		if got, err := c.Client.CloneCompute(t.Context(), first.ID, r); err != nil || got.Callback != want {
			t.Errorf("got %q, %v, want %q", got.Callback, err, want)
		}
	}
	wrong := "http://127.0.0.1:7433/api"
	if _, err := c.Client.CloneCompute(t.Context(), first.ID,
		client.ComputeRepeat{Callback: &wrong}); job.KindOf(err) != job.Invalid {
		t.Errorf("got %v", err)
	}
	if _, err := c.Client.CloneCompute(t.Context(), first.ID,
		client.ComputeRepeat{Service: "small"}); job.KindOf(err) != job.Invalid ||
		!strings.Contains(err.Error(), "sends none") {
		t.Errorf("got %v", err)
	}
}
