package serviceconfig

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/agent"
	"github.com/stagepost/stagepost/job"
)

// Module is what a module beside compute adds to a program: to files of services, to the environment, and to what
// servers and agents answer. The zero Module adds nothing; each function may be nil.
type Module struct {
	Policies []Policy // words that `policy` takes beside off
	Legacy   bool     // the module reaches agents by `legacy`

	// Environ reads variables in the form of os.Environ: for a server, which listens for users of another system or
	// does not, or for an agent. The error joins all mistakes in them.
	Environ func(environ []string, r Reader) (Environment, error)

	// Limitless names the executors of a kind if they enforce no limits ([compute.Service.Unlimited]); empty: they do.
	Limitless func(kind string) string

	Users Users // of another system; nil: none

	// Agent serves servers of another system, for [agent.HandlerOptions]. The agent is bound.
	Agent func(ctx context.Context, app *agent.App, o AgentOptions) (http.Handler, error)
}

// Reader is who reads the environment.
type Reader string

// The readers. A server that listens reads more than one that does not.
const (
	ForServer    Reader = "server"
	ForListening Reader = "listening server"
	ForAgent     Reader = "agent"
)

// Environment has the settings that variables of a module give. Zero fields: the variable is not set.
type Environment struct {
	Port       string // to listen on
	Data       string // directory of the data
	Store      string // directory of an agent's records
	Sandbox    string // as the settings have it
	Keep       time.Duration
	Retries    int
	NeedScript bool                // [compute.Options.NeedScript]
	Resend     bool                // [compute.Options.Resend]
	Strict     bool                // answers are exactly those of the other system
	Check      compute.ScriptCheck // of run.sh
	Services   []Added
	Shown      []Shown
	Setting    func(service, path string) string // [agent.Options.Setting]

	// Dial makes the executor of an agent that was added, or that a file reaches by legacy.
	Dial func(a *Agent, s Server) (compute.Executor, error)
}

// Shown are directories of this machine that jobs of a service may read.
type Shown struct {
	Service string
	Dirs    []string
	From    string // where it is written, for people
}

// Server is what executors of a module need of the server. Both are required.
type Server struct {
	Record  func(ctx context.Context, id job.ID) (job.Job, error)
	Service func(name string) compute.Service
}

// Users serves users of another system at an address of their own.
type Users interface {
	// Title names the users of the address.
	Title() string

	// Address gives the address, HOST:PORT; "" is none. port is [Environment.Port].
	Address(port string) string

	// Handler serves users. The store is that of the application's engine.
	Handler(app *compute.App, store job.Store, o UsersOptions) http.Handler
}

// Caller is who sends a request of such a user.
type Caller struct {
	Owner string
	All   bool // it sees the jobs of all owners
	Files bool // it downloads the files of all owners
}

// UsersOptions of what users of another system reach.
type UsersOptions struct {
	// whose a request's token is. nil: there are no tokens
	Who    func(*http.Request) (Caller, error)
	Strict bool     // [Environment.Strict]
	Hosts  []string // names by which requests may come to the loopback
	Log    *slog.Logger
	// is called for requests that are refused because of their sender
	Refused func(*http.Request, error)

	IsDefault func(setting string) bool // reports that a setting was not set
}

// AgentOptions of what servers of another system reach.
type AgentOptions struct {
	Token  string // that callers bring; empty: none
	Strict bool   // [Environment.Strict]
	Log    *slog.Logger
}

// Environment reads the environment of the process.
func (m Module) Environment(environ []string, r Reader) (Environment, error) {
	if m.Environ == nil {
		return Environment{}, nil
	}
	return m.Environ(environ, r)
}

// Policy is a check of run.sh with the word by which services choose it.
type Policy struct {
	Word  string
	Check compute.ScriptCheck
}

// policy gives the check that a word stands for. That of no word is nil: the agent's own check holds.
func (m Module) policy(word string) (check compute.ScriptCheck, ok bool) {
	switch word {
	case "":
		return nil, true
	case "off":
		return compute.AnyScript, true
	}
	i := slices.IndexFunc(m.Policies, func(p Policy) bool { return p.Word == word })
	if i < 0 {
		return nil, false
	}
	return m.Policies[i].Check, true
}

// policyWords lists the words for people.
func (m Module) policyWords() string {
	words := []string{"off"}
	for _, p := range m.Policies {
		words = append(words, p.Word)
	}
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Added is a service that the module adds, with names of the agents that serve it.
type Added struct {
	Service Service
	Agents  []string
	From    string // where it is written, for people
}

// Add takes in services that the module adds. A service or agent that the file has already is a mistake. All mistakes
// are given, joined.
func (s *Config) Add(all []Added) error {
	wrong := &mistakes{root: s.root, lines: s.lines}
	for _, one := range all {
		name := one.Service.Name
		if slices.ContainsFunc(s.Services, func(o Service) bool { return o.Name == name }) {
			wrong.add([]string{"services", name}, "the service %q is in the file and in %s", name, one.From)
			continue
		}
		for _, agent := range one.Agents {
			s.Agents = append(s.Agents, Agent{Name: agent, Added: true, Services: []string{name}})
		}
		one.Service.Agents = one.Agents
		s.Services = append(s.Services, one.Service)
	}
	return errors.Join(wrong.join(), s.check(false))
}
