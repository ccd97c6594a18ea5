package agentcli

import (
	"net"
	"testing"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/module"
)

// TestAgentPort: many platforms set PORT for whatever they start. It opens an agent to other machines only if that was
// asked for.
func TestAgentPort(t *testing.T) {
	t.Setenv("PORT", "5998")
	none := func(string) bool { return false }
	for name, c := range map[string]struct {
		agentSettings
		want string
	}{
		"nothing else":       {agentSettings{}, "127.0.0.1:5998"},
		"a token":            {agentSettings{tokenFile: "token"}, ":5998"},
		"anyone":             {agentSettings{anyone: true}, ":5998"},
		"a server to dial":   {agentSettings{server: "http://127.0.0.1:7433"}, ""},
		"an address besides": {agentSettings{server: "http://127.0.0.1:7433", listen: "127.0.0.1:0"}, "127.0.0.1:0"},
	} {
		s := cli.NewCommon()
		s.Server = c.server
		c.module = twoVariables
		if err := c.complete(s, none); err != nil || c.listen != c.want {
			t.Errorf("%s: it listens on %q, want %q: %v", name, c.listen, c.want, err)
		}
	}
}

// TestURLOfAllAddresses: what listens everywhere is reached on this machine by the loopback.
func TestURLOfAllAddresses(t *testing.T) {
	for text, want := range map[string]string{"0.0.0.0:80": "http://127.0.0.1:80", "[::]:80": "http://127.0.0.1:80",
		"[::1]:80": "http://[::1]:80", "127.0.0.2:80": "http://127.0.0.2:80"} {
		a, err := net.ResolveTCPAddr("tcp", text)
		if err != nil || module.URLOf(a) != want {
			t.Errorf("%s: got %s, %v", text, module.URLOf(a), err)
		}
	}
}
