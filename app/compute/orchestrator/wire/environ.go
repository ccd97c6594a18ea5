package wire

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/orchestrator/policy"
)

// Mode is for whom the environment is read. The original has one loader for both.
type Mode string

// The two modes.
const (
	ServerMode Mode = "server"
	AgentMode  Mode = "agent"
)

// Config is the environment of a process, in the original's variables and the ones beside them.
type Config struct {
	Port     uint16
	DBPath   string // absolute
	DataPath string // absolute
	MaxAge   time.Duration

	// Services by name, in lower case. Those of [ServerMode] have at least one agent each, and no quota of 0.
	Services map[string]Service

	DispatchRetries  int  // 0: a job whose agent cannot be reached fails at once, as in the original
	LegacyInjectTrap bool // before run.sh goes to an original agent, which refuses scripts without it
	LegacyRedispatch bool // send again to an original agent when it is not known whether it has the job
	StrictUpload     bool
	ScriptPolicy     policy.Policy
	Compat           Compat
	Sandbox          string // auto, native, bwrap, none or require

	// Warnings are about variables that mean nothing, or that were completed.
	Warnings []string
}

// Service is one SERVICE_<NAME>_...
type Service struct {
	Name        string
	Agents      []Endpoints // the triple of URLs first, then CLIENTS in their order
	RunsPerUser int
	MaxRuns     int
	BindRO      []string // directories that its jobs may read
}

// Mistake is one variable that cannot be used. Values are not repeated: addresses may hold passwords.
type Mistake struct {
	Name, Reason string
}

func (m *Mistake) Error() string { return m.Name + " " + m.Reason }

// draft is a Config in the making.
type draft struct {
	Config
	mode     Mode
	triples  map[string]*Endpoints
	clients  map[string][]Endpoints
	from     map[string]string // what set a value, to find two variables for one
	mistakes []error
}

func (d *draft) wrong(name, format string, args ...any) {
	d.mistakes = append(d.mistakes, &Mistake{name, fmt.Sprintf(format, args...)})
}

// Environ reads variables in the form of os.Environ. Empty ones count as not set; of two with one name the last counts.
// The error joins a *Mistake for each thing that is wrong; nothing is used then.
func Environ(env []string, mode Mode) (Config, error) {
	d := &draft{
		Config: Config{Services: map[string]Service{}}, mode: mode, triples: map[string]*Endpoints{},
		clients: map[string][]Endpoints{},
		from:    map[string]string{},
	}
	if mode != ServerMode && mode != AgentMode {
		return Config{}, fmt.Errorf("mode %q is neither server nor agent", mode)
	}
	given := map[string]string{}
	for _, pair := range env {
		if name, value, ok := strings.Cut(pair, "="); ok {
			given[name] = value
		}
	}
	for _, v := range plain {
		value := cmp.Or(given[v.Name], v.Default)
		if err := v.set(&d.Config, value); err != nil {
			d.wrong(v.Name, "%v", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if rest, ok := strings.CutPrefix(name, "SERVICE_"); ok && given[name] != "" {
			d.service(name, rest, given[name])
		}
	}
	d.finish()
	if len(d.mistakes) > 0 {
		return Config{}, errors.Join(d.mistakes...)
	}
	return d.Config, nil
}

// service reads one SERVICE_<NAME>_<KEY>. The key is searched for at the end, so that names may have underscores in
// them.
func (d *draft) service(variable, rest, value string) {
	for _, v := range perService {
		name, ok := strings.CutSuffix(rest, "_"+v.Name)
		if !ok {
			continue
		}
		key := strings.ToLower(name)
		if !serviceName(key) {
			d.wrong(variable, "names no service: letters, digits, - and _ may stand between SERVICE_ and _%s", v.Name)
			return
		}
		if other, twice := d.from[key+" "+v.Name]; twice {
			d.wrong(variable, "has the same meaning as %s: both are for the service %s", other, key)
			return
		}
		d.from[key+" "+v.Name] = variable
		s, known := d.Services[key]
		if !known {
			s = Service{Name: key, RunsPerUser: 5, MaxRuns: 10}
		}
		if err := v.set(d, &s, value); err != nil {
			d.wrong(variable, "%v", err)
		} else if d.mode == ServerMode &&
			(v.Name == "RUNS_PER_USER" && s.RunsPerUser == 0 || v.Name == "MAX_RUNS" && s.MaxRuns == 0) {
			d.wrong(variable, "%s", compute.NeverRuns(key))
		}
		d.Services[key] = s
		return
	}
	d.Warnings = append(d.Warnings, variable+" ends in none of the words that are known for a service, and is ignored")
}

func serviceName(name string) bool {
	if name == "" || len(name) > 64 {
		return false
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// finish puts the agents together. Addresses that are missing beside an upload address are derived from it.
func (d *draft) finish() {
	for _, key := range slices.Sorted(maps.Keys(d.Services)) {
		s := d.Services[key]
		prefix := "SERVICE_" + strings.ToUpper(key)
		if e := d.triples[key]; e != nil && e.Upload == "" {
			d.wrong(prefix+"_UPLOAD_URL", "is missing, while another address of the service is set")
		} else if e != nil {
			d.complete(prefix, e)
			s.Agents = append(s.Agents, *e)
		}
		s.Agents = append(s.Agents, d.clients[key]...)
		if len(s.Agents) == 0 && d.mode == ServerMode && d.triples[key] == nil && d.from[key+" CLIENTS"] == "" {
			d.wrong(prefix+"_UPLOAD_URL", "is missing, and %s_CLIENTS too: the service has no agent", prefix)
		}
		d.Services[key] = s
	}
}

func (d *draft) complete(prefix string, e *Endpoints) {
	u, err := parseURL(e.Upload)
	if err != nil {
		return // reported already
	}
	if e.Download == "" {
		e.Download = sibling(u, "retrieve").String()
		d.Warnings = append(d.Warnings, prefix+"_DOWNLOAD_URL is missing; /retrieve beside the upload address is used")
	}
	if e.Terminate == "" {
		e.Terminate = sibling(u, "kill").String()
		d.Warnings = append(d.Warnings, prefix+"_TERMINATE_URL is missing; /kill beside the upload address is used")
	}
}

func (d *draft) triple(service string) *Endpoints {
	if d.triples[service] == nil {
		d.triples[service] = &Endpoints{}
	}
	return d.triples[service]
}

// number reads as Rust does: digits, and a plus sign if need be.
func number(text string, least, most uint64) (uint64, error) {
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "+"), 10, 64)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("must be a whole number from %d to %d", least, most)
	}
	return n, nil
}

// seconds reads a number of them. More than a Duration can hold means indefinitely, which is as much as it can hold.
func seconds(text string) (time.Duration, error) {
	n, err := number(text, 1, math.MaxUint64)
	if err != nil {
		return 0, errors.New("must be a whole number of seconds, at least 1")
	}
	return time.Duration(min(n, math.MaxInt64/uint64(time.Second))) * time.Second, nil
}

func flag(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "1", "true", "yes", "on":
		return true, nil
	case "0", "false", "no", "off":
		return false, nil
	}
	return false, errors.New("must be true or false")
}

func oneOf(text string, words ...string) (string, error) {
	if slices.Contains(words, strings.ToLower(text)) {
		return strings.ToLower(text), nil
	}
	return "", fmt.Errorf("must be one of %s", strings.Join(words, ", "))
}
