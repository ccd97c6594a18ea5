package orchestratorcli

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/cli"
)

// Name is the name under which this program behaves as job-orchestrator does: a symbolic link serves scripts that start
// it.
const Name = "job-orchestrator"

// Called reports whether the program was called so.
func Called(arg0 string) bool {
	return strings.TrimSuffix(filepath.Base(arg0), ".exe") == Name
}

// Main does one call under that name and gives its exit code: a server or an agent that is configured by
// job-orchestrator's variables. Other than there they are read after the arguments, all mistakes in them are reported
// at once, and the addresses are loopback ones.
func Main(run func(args []string, in io.Reader, out, errs io.Writer) int, args []string, in io.Reader,
	out, errs io.Writer) int {
	word := ""
	if len(args) > 0 {
		word = args[0]
	}
	help := word == "help" || word == "-h" || word == "--help"
	mode := map[string]wire.Mode{"server": wire.ServerMode, "client": wire.AgentMode}[word]
	switch {
	case help && len(args) == 1, mode != "" && len(args) == 2 && (args[1] == "-h" || args[1] == "--help"):
		p := cli.NewPrinter(out)
		tellOrchestrator(p)
		return cli.New(in, p, cli.NewPrinter(errs), cli.NewCommon(), nil).Printed(nil)
	case mode == "" || len(args) > 1:
		if len(args) > 0 {
			cli.NewPrinter(errs).Line("%s: it takes one word, server, client or help, not %q", Name,
				strings.Join(args, " "))
		}
		tellOrchestrator(errs)
		return cli.ExitUsage
	}
	env, err := wire.Environ(os.Environ(), mode)
	if err == nil && mode == wire.ServerMode && len(env.Services) == 0 &&
		os.Getenv("STAGEPOST_COMPUTE_SERVICES") == "" && os.Getenv("STAGEPOST_COMPUTE_LOCAL") == "" {
		err = errors.New("there is no service: set SERVICE_<NAME>_UPLOAD_URL to the address where its client takes " +
			"jobs, such as http://127.0.0.1:9000/submit")
	}
	if err != nil {
		for _, text := range cli.Sentences(err) {
			cli.NewPrinter(errs).Line("%s: %s", Name, text)
		}
		return cli.ExitUsage
	}
	for _, text := range env.Warnings {
		cli.NewPrinter(errs).Line("%s: %s", Name, text)
	}
	if mode == wire.AgentMode {
		return run(orchestratorClient(&env), in, out, errs)
	}
	if _, err := os.Stat(env.DBPath); err == nil {
		cli.NewPrinter(errs).Line("%s: %s is not read: stagepost compute import takes over what an original "+
			"server kept", Name, env.DBPath)
	}
	return run(orchestratorServer(&env), in, out, errs)
}

// orchestratorServer gives the call of a server. Its own API is on a free port; stagepost --data finds it.
func orchestratorServer(env *wire.Config) []string {
	args := []string{"serve", "--data", filepath.Join(env.DataPath, "stagepost"), "--listen", "127.0.0.1:0",
		"--compute-listen", onLoopback(env.Port)}
	if env.Compat == wire.Strict {
		args = append(args, "--compute-strict")
	}
	return args
}

// orchestratorClient gives the call of an agent, which reads the other variables itself.
func orchestratorClient(env *wire.Config) []string {
	return []string{"compute", "agent", "--data", filepath.Join(env.DataPath, "agent"), "--listen",
		onLoopback(env.Port)}
}

func onLoopback(port uint16) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))) }

// tellOrchestrator prints what the program does under that name.
func tellOrchestrator(w io.Writer) {
	fmt.Fprintf(w, `Usage: %[1]s server | client | help

This is Stagepost, called by the name of %[1]s.

  server   takes users' jobs on 127.0.0.1:PORT and sends them to clients; its files are in DATA_PATH/stagepost
  client   runs jobs for servers on 127.0.0.1:PORT; its files are in DATA_PATH/agent
  help     prints this

Everything is configured by variables of the environment:

`, Name)
	for _, v := range wire.Variables() {
		def := ""
		if v.Default != "" {
			def = " [" + v.Default + "]"
		}
		fmt.Fprintf(w, "  %s%s\n      %s\n", v.Name, def, v.Meaning)
	}
	fmt.Fprintf(w, "\nstagepost serve and stagepost compute agent do the same and more, by flags and files: "+
		"stagepost --help.\n")
}
