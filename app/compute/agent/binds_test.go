package agent

import (
	"errors"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/sandbox"
)

// What a server counts on and the agent's owner does not allow is refused, with the setting that allows it.
func TestBinds(t *testing.T) {
	t.Parallel()
	own := map[string]Service{
		"example": {Binds: []sandbox.Bind{{From: "/opt/tool"}, {From: "/data/models", To: "/models"}}},
		"open":    {Network: "host"}}
	for _, one := range []struct {
		service, bind, network, want string
		none                         bool // nothing confines payloads
	}{
		{service: "example"},
		{service: "example", bind: "/opt/tool"},
		{service: "example", bind: "/opt/tool/"},
		{service: "example", bind: "/opt/tool/lib"},
		{service: "example", bind: "/data/models:/models"},
		{service: "example", bind: "/data/models/a:/models/a"},
		{service: "example", bind: "/opt/tools", want: `binds: ["/opt/tools"]`},
		{service: "example", bind: "/opt", want: `binds: ["/opt"] for the service in the file of stagepost compute agent --services, or example=/opt in its environment`},
		{service: "example", bind: "/opt/tool/../../etc", want: "show /opt/tool/../../etc"},
		{service: "example", bind: "/data/models", want: "show /data/models to jobs of example"},
		{service: "example", bind: "/data/models:/elsewhere", want: `binds: ["/data/models:/elsewhere"]`},
		{service: "example", bind: "opt/tool", want: "show opt/tool"},
		{service: "example", network: "host", want: "network: host for the service"},
		{service: "open", network: "host"},
		{service: "open", bind: "/opt/tool", want: "show /opt/tool to jobs of open"},
		{service: "open", bind: "/opt/tool", none: true},
		{service: "open", bind: "/opt/tool:/tool", none: true, want: "show /opt/tool:/tool"},
		{service: "example", network: "host", none: true},
	} {
		tier := sandbox.Native
		if one.none {
			tier = sandbox.None
		}
		w := newHarness(t, writes(0), func(o *Options) {
			o.Services, o.Sandbox = own, tier
			o.Setting = func(service, path string) string { return service + "=" + path }
		})
		p := parcel(ticket(), "true")
		p.Service, p.Network = one.service, one.network
		if one.bind != "" {
			p.Binds = []string{one.bind}
		}
		_, err := w.app.Submit(t.Context(), p)
		var no *compute.Refusal
		switch {
		case one.want == "" && err != nil:
			t.Errorf("%+v: %v", one, err)
		case one.want != "" && (!errors.As(err, &no) || !no.Here || !strings.Contains(no.Reason, one.want)):
			t.Errorf("%+v: got %v", one, err)
		}
	}
}

// A server adds nothing to what payloads may read.
func TestBindsAreTheOwners(t *testing.T) {
	t.Parallel()
	begun, release := make(chan *sandbox.Command, 1), make(chan struct{})
	close(release)
	w := newHarness(t, blocks(begun, release), func(o *Options) {
		o.Services, o.Sandbox = map[string]Service{"example": {Binds: []sandbox.Bind{{From: "/opt/tool"}}}},
			sandbox.Native
	})
	p := parcel(ticket(), "true")
	p.Service, p.Binds = "example", []string{"/opt/tool/lib"}
	if _, err := w.app.Submit(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if c := <-begun; len(c.Binds) != 1 || c.Binds[0].From != "/opt/tool" || c.Network != "none" {
		t.Errorf("it may read %v, network %s", c.Binds, c.Network)
	}
}

// An agent that has one service by name may serve all the others as well: the named one is that of payloads that come
// without a name.
func TestOthers(t *testing.T) {
	t.Parallel()
	own := map[string]Service{"example": {Binds: []sandbox.Bind{{From: "/opt/tool"}}}}
	for _, others := range []bool{true, false} {
		w := newHarness(t, writes(0), func(o *Options) { o.Services, o.Others = own, others })
		room, err := w.app.Capacity(t.Context())
		if err != nil || (len(room.Services) == 0) != others {
			t.Errorf("it serves %v, %v", room.Services, err)
		}
		p := parcel(ticket(), "true")
		p.Service = "another"
		if _, err := w.app.Submit(t.Context(), p); (err == nil) != others {
			t.Errorf("with Others=%v: %v", others, err)
		}
		if got := w.app.defaultService(); got != "example" {
			t.Errorf("payloads without a service are of %q", got)
		}
	}
	two := newHarness(t, writes(0), func(o *Options) {
		o.Services, o.Others = map[string]Service{"a": {Network: "host"}, "b": {}}, true
	})
	if s, err := two.app.Direct().Begin(); err != nil {
		t.Errorf("one that could be of either is of neither: %v", err)
	} else {
		s.Discard()
	}
}
