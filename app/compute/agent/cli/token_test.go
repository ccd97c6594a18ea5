package agentcli

import (
	"io"
	"strings"
	"testing"

	computeserve "github.com/stagepost/stagepost/app/compute/serve"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/edge/sandbox"
)

// box is a sandbox that shows its commands everything, or nothing.
type box struct {
	shows  bool
	hidden int
}

func (b *box) ShowsAll() bool { return b.shows }
func (b *box) Hide() error    { b.hidden++; return nil }

// TestTokenIsKeptFromJobs: an agent whose jobs could read its token's file does not start; the environment is closed to
// them.
func TestTokenIsKeptFromJobs(t *testing.T) {
	for _, c := range []struct {
		name, caller, server, variable string
		certificate                    string
		shows                          bool
		refused                        string
		hidden                         int
	}{
		{name: "file of callers", caller: "/etc/agent.token", shows: true, refused: "/etc/agent.token"},
		{name: "file for the server", server: "/etc/own.token", shows: true, refused: "/etc/own.token"},
		{name: "certificate", certificate: "/etc/identity", variable: "0123456789abcdef", shows: true,
			refused: "/etc/identity"},
		{name: "variable", server: "/etc/own.token", variable: "0123456789abcdef", shows: true, hidden: 1},
		{name: "none", shows: true, hidden: 1},
		{name: "confined", caller: "/etc/agent.token", server: "/etc/own.token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(cli.TokenVariable, c.variable)
			b := &box{shows: c.shows}
			err := (&agentSettings{module: twoVariables, tokenFile: c.caller}).keepToken(b, c.server, c.certificate)
			if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
				t.Errorf("got %v, want %q", err, c.refused)
			}
			if b.hidden != c.hidden {
				t.Errorf("hidden %d times, want %d", b.hidden, c.hidden)
			}
		})
	}
}

// TestAgentsAreConfined: an agent without settings has a sandbox, or does not start. SANDBOX and --sandbox report
// otherwise.
func TestAgentsAreConfined(t *testing.T) {
	for want, c := range map[string]struct{ variable, flag string }{
		sandbox.Require: {}, sandbox.None: {variable: sandbox.None}, sandbox.Bwrap: {variable: sandbox.None,
			flag: sandbox.Bwrap},
	} {
		t.Setenv("SANDBOX", c.variable)
		a := &agentSettings{module: twoVariables, listen: "127.0.0.1:0", sandbox: c.flag}
		s := cli.NewCommon()
		if err := a.complete(s, func(name string) bool { return name == "sandbox" && c.flag != "" }); err != nil {
			t.Fatal(err)
		}
		if a.sandbox != want {
			t.Errorf("got %q, want %q", a.sandbox, want)
		}
	}
	s := cli.NewCommon()
	cmd, _, err := cli.New(nil, cli.NewPrinter(io.Discard), cli.NewPrinter(io.Discard), s, nil,
		Part(&computeserve.Settings{Module: twoVariables})).Root().Find([]string{"compute", "agent", "doctor"})
	if err != nil || cmd.Flags().Lookup("sandbox").DefValue != sandbox.Require {
		t.Errorf("the examination is of another sandbox than the agent's, %v", err)
	}
}
