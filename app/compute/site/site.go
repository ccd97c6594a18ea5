// Package site reads what a site says about compute: its services, and who runs their jobs. The same file serves a server and its agents; each takes what is its own. A [Module] adds
// keys to it, and services that no file names.
package site

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/agent"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/format/tree"
)

// Local is the name of the agent that a server has in itself.
const Local = "local"

// Site is all of it.
type Site struct {
	Services []Service // by name
	Agents   []Agent   // by name

	root   *tree.Node // of the file; nil: not known
	module Module
}

// Service is one service, as a file writes it down.
type Service struct {
	Name        string            `yaml:"-"`
	RunsPerUser *int              `yaml:"runs_per_user"` // jobs of one user that hold a slot, at least 1. Defaults to 5
	MaxRuns     *int              `yaml:"max_runs"`      // jobs that hold a slot, at least 1. Defaults to 10
	Agents      []string          `yaml:"agents"`        // that serve it. Defaults to all that say they do
	Limits      Limits            `yaml:"limits"`        // of a job that asks for none
	Max         Limits            `yaml:"max"`           // that a job may ask for
	Env         map[string]string `yaml:"env"`           // of every job
	LeaveInputs bool              `yaml:"leave_inputs"`  // results hold no unchanged inputs
	Binds       []string          `yaml:"binds"`         // paths of the agent's machine that jobs may read: /opt/tool, or /opt/tool:/tool
	Network     string            `yaml:"network"`       // none (the default) or host
	Callbacks   *Callbacks        `yaml:"callbacks"`     // where jobs' ends may be told. Defaults to nowhere
	Policy      string            `yaml:"policy"`        // of run.sh: off (the default), or a word of the module
}

// Limits are limits as a file writes them down.
type Limits struct {
	Wall      Duration `yaml:"wall"`
	CPU       Duration `yaml:"cpu"`
	Memory    Size     `yaml:"memory"`
	Disk      Size     `yaml:"disk"`
	Output    Size     `yaml:"output"`
	Processes int      `yaml:"processes"`
	Cores     float64  `yaml:"cores"`
	Files     int      `yaml:"files"`
}

// Limits gives them as the application has them.
func (l Limits) Limits() compute.Limits {
	return compute.Limits{Wall: l.Wall.Duration, CPU: l.CPU.Duration, Memory: int64(l.Memory), Disk: int64(l.Disk), Output: int64(l.Output), Processes: l.Processes, Cores: l.Cores, Files: l.Files}
}

// Agent is somebody who runs jobs: exactly one of URL, Tunnel, Legacy, Slurm and Added says how.
type Agent struct {
	Name      string   `yaml:"-"`
	URL       string   `yaml:"url"`        // of a stagepost agent, http://node7:7434
	TokenFile string   `yaml:"token_file"` // what it wants
	Tunnel    bool     `yaml:"tunnel"`     // a stagepost agent that comes by itself (agent --server)
	Legacy    string   `yaml:"legacy"`     // base URL of an executor that the module drives
	Slurm     *Slurm   `yaml:"slurm"`
	Services  []string `yaml:"services"` // of an executor of the module or a cluster. Defaults to all

	Added bool `yaml:"-"` // the module has added it, and knows its address
}

// Slurm is a cluster.
type Slurm struct {
	Dir       string   `yaml:"dir"` // shared with its nodes
	Partition string   `yaml:"partition"`
	Account   string   `yaml:"account"`
	QOS       string   `yaml:"qos"`
	Bin       string   `yaml:"bin"`   // where sbatch and the others are. Defaults to PATH
	Extra     []string `yaml:"extra"` // options of sbatch
	Poll      Duration `yaml:"poll"`
}

// document is a file.
type document struct {
	Services map[string]Service `yaml:"services"`
	Agents   map[string]Agent   `yaml:"agents"`
}

// mostFile is how long a file may be, in bytes.
const mostFile = 1 << 20

// Read reads a file as an agent does: what only a server has need not be there.
func (m Module) Read(name string) (*Site, error) { return m.read(name, false) }

// ReadServer reads a file as a server does: the secrets of callbacks must be there, too.
func (m Module) ReadServer(name string) (*Site, error) { return m.read(name, true) }

func (m Module) read(name string, server bool) (*Site, error) {
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

// Parse reads the text of a file and gives all mistakes in it, joined: each is a [Mistake] with its line and column. Of what is no such YAML it gives the first.
func (m Module) Parse(text []byte) (*Site, error) { return m.parse(text, false) }

func (m Module) parse(text []byte, server bool) (*Site, error) {
	root, _ := tree.Read(text, tree.Options{Aliases: true}) // only to tell where mistakes stand
	var d document
	if err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(&d); err != nil && len(bytes.TrimSpace(text)) > 0 {
		return nil, ofYAML(err, root)
	}
	s := &Site{root: root, module: m}
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

// check gives all mistakes in a site; for a server those of the secrets, too.
func (s *Site) check(server bool) error {
	wrong := &mistakes{root: s.root}
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
		return errors.New("exactly one of url, tunnel, legacy and slurm says how it is reached")
	case a.Legacy != "" && !m.Legacy:
		return errors.New("this program has no module that reaches an agent by legacy")
	case a.Slurm != nil && !filepath.IsAbs(a.Slurm.Dir):
		return errors.New("slurm.dir must be an absolute path that the nodes see, too")
	}
	for _, text := range []string{a.URL, a.Legacy} {
		if u, err := url.Parse(text); text != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
			return errors.New("its URL must be of the form http://host:port")
		}
	}
	return nil
}

// Compute gives the services as the application has them.
func (s *Site) Compute() []compute.Service {
	var list []compute.Service
	for _, one := range s.Services {
		list = append(list, compute.Service{
			Name: one.Name, RunsPerUser: orZero(one.RunsPerUser), MaxRuns: orZero(one.MaxRuns), Agents: one.Agents, Limits: one.Limits.Limits(), Max: one.Max.Limits(), Env: one.Env, LeaveInputs: one.LeaveInputs, Callbacks: one.callbacks(),
		})
	}
	return list
}

// orZero gives a number, or the 0 by which the application knows that none was written.
func orZero(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// Agent gives the services as an agent has them. None: it serves any.
func (s *Site) Agent() map[string]agent.Service {
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
