// Package serviceconfig reads the service configuration of compute: its services, and who runs their jobs. The same
// file serves a server and its agents; each takes what is its own. A [Module] adds keys to it, and services that no
// file names.
package serviceconfig

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/agent"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/format/tree"
	"github.com/stagepost/stagepost/job"
)

// Local is the name of the agent that a server has in itself.
const Local = "local"

// Config is all of it.
type Config struct {
	Services []Service // by name
	Agents   []Agent   // by name

	root   *tree.Node // of the file; nil: not known
	lines  *lines
	module Module
}

// Service is one service, as a file writes it down.
type Service struct {
	Name        string            `json:"-"`
	RunsPerUser *int              `json:"runs_per_user" doc:"Jobs of one user that hold a slot at the same time, at least 1. Defaults to 5."`
	MaxRuns     *int              `json:"max_runs" doc:"Jobs that hold a slot at the same time, at least 1. Defaults to 10."`
	Agents      []string          `json:"agents" doc:"Agents that serve it. Defaults to all that offer it."`
	Limits      Limits            `json:"limits" doc:"Limits of a job that asks for none, each more than 0. A limit that is left out is that of the agent."`
	Max         Limits            `json:"max" doc:"The most that a job may ask for, each more than 0. A limit that is left out has no maximum."`
	Env         map[string]string `json:"env" doc:"Variables of every job."`
	Requires    []string          `json:"requires" doc:"Labels that an agent must have to run its jobs: gpu, zone=b."`
	LeaveInputs bool              `json:"leave_inputs" doc:"Results contain no unchanged inputs."`
	Binds       []string          `json:"binds" doc:"Paths of the agent's machine that jobs may read: /opt/tool, or /opt/tool:/tool."`
	Network     string            `json:"network" doc:"none (the default) or host."`
	Callbacks   *Callbacks        `json:"callbacks" doc:"Where the ends of jobs may be reported. Defaults to nowhere."`
	Policy      string            `json:"policy" doc:"Check of run.sh: off (the default), or a word of a module."`
}

// Limits are limits as a file writes them down.
type Limits struct {
	Wall      Duration `json:"wall" doc:"Time from start to end: 2h."`
	CPU       Duration `json:"cpu" doc:"Processor time: 2h."`
	Memory    Size     `json:"memory" doc:"Memory of all processes together: 4GiB."`
	Disk      Size     `json:"disk" doc:"Bytes of files: 20GiB."`
	Output    Size     `json:"output" doc:"Bytes of standard output, and of standard error: 64MiB."`
	Processes int      `json:"processes" doc:"Processes and threads at the same time."`
	Cores     float64  `json:"cores" doc:"Processors; 0.5 is half of one."`
	Files     int      `json:"files" doc:"Number of files."`
}

// Limits gives them as the application has them.
func (l Limits) Limits() compute.Limits {
	return compute.Limits{Wall: l.Wall.Duration, CPU: l.CPU.Duration, Memory: int64(l.Memory), Disk: int64(l.Disk),
		Output: int64(l.Output), Processes: l.Processes, Cores: l.Cores, Files: l.Files}
}

// Agent runs jobs: exactly one of URL, Tunnel, Legacy, Slurm and Added defines how.
type Agent struct {
	Name      string   `json:"-"`
	URL       string   `json:"url" doc:"URL of a Stagepost agent: http://node7:7434."`
	TokenFile string   `json:"token_file" doc:"File with the token that the agent requires."`
	Tunnel    bool     `json:"tunnel" doc:"A Stagepost agent that dials the server (agent --server)."`
	Legacy    string   `json:"legacy" doc:"Base URL of an executor that a module drives."`
	Slurm     *Slurm   `json:"slurm" doc:"A Slurm cluster."`
	Services  []string `json:"services" doc:"Services of a cluster or of an executor of a module. Defaults to all."`
	Labels    []string `json:"labels" doc:"What it has, for services and jobs that require it: gpu, zone=b."`

	Added bool `json:"-"` // the module has added it, and has its address
}

// Slurm is a cluster.
type Slurm struct {
	Dir       string   `json:"dir" doc:"Directory that the nodes share."`
	Partition string   `json:"partition" doc:"Partition of the jobs."`
	Account   string   `json:"account" doc:"Account of the jobs."`
	QOS       string   `json:"qos" doc:"Quality of service of the jobs."`
	Bin       string   `json:"bin" doc:"Directory of sbatch and the other commands. Defaults to PATH."`
	Extra     []string `json:"extra" doc:"Further options of sbatch."`
	Poll      Duration `json:"poll" doc:"Pause between queries of the queue."`
}

// document is a file.
type document struct {
	Services map[string]Service `json:"services" doc:"Services by name."`
	Agents   map[string]Agent   `json:"agents" doc:"Agents by name. Exactly one of url, tunnel, legacy and slurm is given."`
}

// mostFile is how long a file may be, in bytes.
const mostFile = 1 << 20

// Read reads a file as an agent does: what only a server has need not be there.
func (m Module) Read(name string) (*Config, error) { return m.read(name, false) }

// ReadServer reads a file as a server does: the secrets of callbacks must be there, too.
func (m Module) ReadServer(name string) (*Config, error) { return m.read(name, true) }

func (m Module) read(name string, server bool) (*Config, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > mostFile {
		return nil, fmt.Errorf("%s is longer than %d bytes", name, mostFile)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	s, err := m.parse(text, server)
	if err != nil {
		return nil, inFile(name, err)
	}
	return s, nil
}

// Parse reads the text of a file and gives all mistakes in it, joined: each is a [Mistake] with its line and column. Of
// what is no such YAML it gives the first.
func (m Module) Parse(text []byte) (*Config, error) { return m.parse(text, false) }

func (m Module) parse(text []byte, server bool) (*Config, error) {
	root, err := tree.Read(text, tree.Options{Aliases: true, Merges: true, Empty: true, Quote: true})
	var broken *tree.Error
	if errors.As(err, &broken) {
		return nil, &Mistake{Line: broken.Line, Column: broken.Column, Text: broken.Text}
	}
	s := &Config{root: root, lines: linesOf(text, root), module: m}
	wrong := &mistakes{root: s.root, lines: s.lines}
	d := decode(root, wrong)
	if len(wrong.all) > 0 {
		return nil, wrong.join()
	}
	for _, name := range slices.Sorted(maps.Keys(d.Services)) {
		one := d.Services[name]
		one.Name = name
		s.Services = append(s.Services, one)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Agents)) {
		one := d.Agents[name]
		one.Name = name
		s.Agents = append(s.Agents, one)
	}
	return s, s.check(server)
}

// check gives all mistakes in a service configuration; for a server those of the secrets, too.
func (s *Config) check(server bool) error {
	wrong := &mistakes{root: s.root, lines: s.lines}
	for _, one := range s.Compute() {
		if _, err := compute.CheckServices([]compute.Service{one}); err != nil {
			for _, line := range strings.Split(err.Error(), "\n") {
				wrong.add([]string{"services", one.Name}, "%s", line)
			}
		}
	}
	known := map[string]bool{Local: true}
	for i := range s.Agents {
		known[s.Agents[i].Name] = true
		if err := s.Agents[i].check(s.module); err != nil {
			wrong.add([]string{"agents", s.Agents[i].Name}, "agent %q: %v", s.Agents[i].Name, err)
		}
	}
	for i := range s.Services {
		s.Services[i].check(s.module, known, wrong)
		if server {
			s.Services[i].checkSecrets(wrong)
		}
	}
	return wrong.join()
}

func (s *Service) check(m Module, known map[string]bool, all *mistakes) {
	wrong := func(field, format string, args ...any) {
		all.add([]string{"services", s.Name, field}, "service %q: %s", s.Name, fmt.Sprintf(format, args...))
	}
	for _, quota := range []struct {
		field string
		is    *int
	}{{"runs_per_user", s.RunsPerUser}, {"max_runs", s.MaxRuns}} {
		if quota.is != nil && *quota.is == 0 {
			wrong(quota.field, "%s %s", quota.field, compute.NeverRuns(s.Name))
		}
	}
	s.checkLimits(all)
	for _, name := range s.Agents {
		if !known[name] {
			wrong("agents", "there is no agent %q", name)
		}
	}
	for _, bind := range s.Binds {
		from, to, _ := strings.Cut(bind, ":")
		if !filepath.IsAbs(from) || to != "" && !filepath.IsAbs(to) {
			wrong("binds", "bind %q must be absolute, as /opt/tool or /opt/tool:/tool", bind)
		}
	}
	s.checkCallbacks(wrong)
	switch s.Network {
	case "", "none", "host":
	default:
		wrong("network", "network must be none or host, not %q", s.Network)
	}
	if _, ok := m.policy(s.Policy); !ok {
		wrong("policy", "policy must be %s, not %q", m.policyWords(), s.Policy)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			wrong("env", "%q is no name for a variable", name)
		}
	}
}

// checkLimits refuses a limit of 0: it could mean that there is no limit, or that nothing may be used.
func (s *Service) checkLimits(all *mistakes) {
	for _, group := range []struct {
		field string
		is    Limits
	}{{"limits", s.Limits}, {"max", s.Max}} {
		v := reflect.ValueOf(group.is)
		for i := range v.NumField() {
			name := v.Type().Field(i).Tag.Get("json")
			path := []string{"services", s.Name, group.field, name}
			if v.Field(i).IsZero() && all.written(path) {
				all.add(path, "service %q: %s.%s is 0: it must be more than 0; without %[3]s, the service sets "+
					"no such limit", s.Name, group.field, name)
			}
		}
	}
}

func (a *Agent) check(m Module) error {
	ways := 0
	for _, is := range []bool{a.URL != "", a.Tunnel, a.Legacy != "" || a.Added, a.Slurm != nil} {
		if is {
			ways++
		}
	}
	switch {
	case a.Name == Local:
		return errors.New("this name is for the agent that a server has in itself")
	case ways != 1:
		return errors.New("exactly one of url, tunnel, legacy and slurm must define how it is reached")
	case a.Legacy != "" && !m.Legacy:
		return errors.New("this program has no module that reaches an agent by legacy")
	case a.Slurm != nil && !filepath.IsAbs(a.Slurm.Dir):
		return errors.New("slurm.dir must be an absolute path that the nodes see, too")
	}
	for _, l := range a.Labels {
		if _, err := job.Required(l); err != nil {
			return errors.New(job.Reason(err))
		}
	}
	for _, text := range []string{a.URL, a.Legacy} {
		if u, err := url.Parse(text); text != "" &&
			(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
			return errors.New("its URL must be of the form http://host:port")
		}
	}
	return nil
}

// Compute gives the services as the application has them.
func (s *Config) Compute() []compute.Service {
	var list []compute.Service
	for _, one := range s.Services {
		list = append(list, compute.Service{
			Name: one.Name, RunsPerUser: orZero(one.RunsPerUser), MaxRuns: orZero(one.MaxRuns), Agents: one.Agents,
			Limits: one.Limits.Limits(), Max: one.Max.Limits(), Env: one.Env, Requires: one.Requires,
			LeaveInputs: one.LeaveInputs, Callbacks: one.callbacks(),
		})
	}
	return list
}

// orZero gives a number, or the 0 by which the application recognizes that none was written.
func orZero(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// Agent gives the services as an agent has them. None: it serves any.
func (s *Config) Agent() map[string]agent.Service {
	if len(s.Services) == 0 {
		return nil
	}
	list := map[string]agent.Service{}
	for _, one := range s.Services {
		service := agent.Service{Network: one.Network, Env: one.Env, Limits: one.Limits.Limits(), Max: one.Max.Limits()}
		service.Check, _ = s.module.policy(one.Policy)
		for _, bind := range one.Binds {
			from, to, _ := strings.Cut(bind, ":")
			service.Binds = append(service.Binds, sandbox.Bind{From: from, To: to})
		}
		list[one.Name] = service
	}
	return list
}
