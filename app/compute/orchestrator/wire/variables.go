package wire

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/compute/orchestrator/policy"
)

// Variable documents one name of the environment.
type Variable struct {
	Name    string
	Default string // as it would be written; empty: none
	Ours    bool   // the original does not know it
	Meaning string
}

type plainVariable struct {
	Variable
	set func(c *Config, value string) error
}

type serviceVariable struct {
	Variable
	set func(d *draft, s *Service, value string) error
}

// Variables lists what [Environ] reads, in the order of the documents.
func Variables() []Variable {
	var all []Variable
	for _, v := range plain {
		all = append(all, v.Variable)
	}
	for _, v := range perService {
		v.Name = "SERVICE_<NAME>_" + v.Name
		all = append(all, v.Variable)
	}
	return all
}

var plain = []plainVariable{
	{Variable{"PORT", "5000", false, "The port to listen on, for servers and agents alike."},
		func(c *Config, v string) error {
			n, err := number(v, 0, 65535)
			c.Port = uint16(n)
			return err
		}},
	{Variable{"DB_PATH", "db.sqlite", false,
		"The database file. A relative path begins where the process was started."}, func(c *Config, v string) error {
		return absolute(&c.DBPath, v)
	}},
	{Variable{"DATA_PATH", "data", false,
		"The directory for the files of jobs. A relative path begins where the process was started."},
		func(c *Config, v string) error { return absolute(&c.DataPath, v) }},
	{Variable{"MAX_AGE", "172800", false,
		"Seconds from the end of a job until its files are removed. The original's program has 864000, and counts " +
			"from their last change."},
		func(c *Config, v string) (err error) {
			c.MaxAge, err = seconds(v)
			return err
		}},
	{Variable{"DISPATCH_RETRIES", "5", true,
		"How often a job goes back to the queue when no agent can be reached; 0: it fails at once, as in the " +
			"original."},
		func(c *Config, v string) error {
			n, err := number(v, 0, 1000)
			c.DispatchRetries = int(n)
			return err
		}},
	{Variable{"LEGACY_INJECT_TRAP", "false", true,
		"Put the trap that an original agent requires into run.sh on the way there."},
		func(c *Config, v string) (err error) {
			c.LegacyInjectTrap, err = flag(v)
			return err
		}},
	{Variable{"LEGACY_REDISPATCH", "false", true,
		"Send a job again to an original agent when its answer was lost. It may then run twice; otherwise it fails."},
		func(c *Config, v string) (err error) {
			c.LegacyRedispatch, err = flag(v)
			return err
		}},
	{Variable{"STRICT_UPLOAD", "false", true,
		"Refuse an upload without run.sh instead of taking it as an Invalid job."},
		func(c *Config, v string) (err error) {
			c.StrictUpload, err = flag(v)
			return err
		}},
	{Variable{"SCRIPT_POLICY", "off", true,
		"What the original's list of forbidden words does: off (nothing), warn, or legacy (the job is Invalid)."},
		func(c *Config, v string) error {
			word, err := oneOf(v, string(policy.Off), string(policy.Warn), string(policy.Legacy))
			c.ScriptPolicy = policy.Policy(word)
			return err
		}},
	{Variable{"COMPAT", "full", true,
		"strict: answers are exactly the original's, without keys and headers of our own."}, func(c *Config,
		v string) error {
		word, err := oneOf(v, "full", string(Strict))
		if word == string(Strict) {
			c.Compat = Strict
		}
		return err
	}},
	{Variable{"SANDBOX", "require", true,
		"How run.sh is confined: auto (the best that works), native, bwrap, none, or require (auto, but never none)."},
		func(c *Config, v string) (err error) {
			c.Sandbox, err = oneOf(v, "auto", "native", "bwrap", "none", "require")
			return err
		}},
}

// perService are the words at the end of SERVICE_<NAME>_..., the longest first, so that none hides another.
var perService = func() []serviceVariable {
	all := []serviceVariable{
		{Variable{"UPLOAD_URL", "", false, "Where the service's agent takes jobs, used as it is."},
			func(d *draft, s *Service, v string) error {
				return d.address(&d.triple(s.Name).Upload, v)
			}},
		{Variable{"DOWNLOAD_URL", "", false,
			"Where results are; a slash and the id are added. Missing: retrieve beside the upload address."},
			func(d *draft, s *Service, v string) error { return d.address(&d.triple(s.Name).Download, v) }},
		{Variable{"TERMINATE_URL", "", false,
			"Where jobs are ended; a slash and the id are added. Missing: kill beside the upload address."},
			func(d *draft, s *Service, v string) error { return d.address(&d.triple(s.Name).Terminate, v) }},
		{Variable{"RUNS_PER_USER", "5", false, "How many jobs of one user may be with the service's agents at once."},
			func(_ *draft, s *Service, v string) error {
				return runs(&s.RunsPerUser, v)
			}},
		{Variable{"MAX_RUNS", "10", false, "How many jobs may be with the service's agents at once."},
			func(_ *draft, s *Service, v string) error {
				return runs(&s.MaxRuns, v)
			}},
		{Variable{"CLIENTS", "", true,
			"Base addresses of agents with commas between them, beside the three addresses: " +
				"http://c1:9000,http://c2:9000."},
			func(d *draft, s *Service, v string) error { return d.addClients(s.Name, v) }},
		{Variable{"BIND_RO", "", true,
			"Absolute directories with colons between them that jobs of the service may read inside the sandbox."},
			func(_ *draft, s *Service, v string) error { return directories(&s.BindRO, v) }},
	}
	slices.SortStableFunc(all, func(a, b serviceVariable) int { return len(b.Name) - len(a.Name) })
	return all
}()

func absolute(into *string, path string) (err error) {
	*into, err = filepath.Abs(path)
	return err
}

func (d *draft) address(into *string, text string) error {
	*into = text
	_, err := parseURL(text)
	return err
}

func runs(into *int, text string) error {
	n, err := number(text, 0, 65535)
	*into = int(n)
	return err
}

func (d *draft) addClients(service, list string) error {
	var errs []error
	seen := map[Endpoints]bool{}
	for i, base := range strings.Split(list, ",") {
		e, err := AgentAt(strings.TrimSpace(base))
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("(number %d) %w", i+1, err))
		case seen[e]:
			errs = append(errs, fmt.Errorf("(number %d) is there twice", i+1))
		default:
			seen[e] = true
			d.clients[service] = append(d.clients[service], e)
		}
	}
	return errors.Join(errs...)
}

func directories(into *[]string, list string) error {
	for dir := range strings.SplitSeq(list, ":") {
		if !filepath.IsAbs(dir) {
			return errors.New("must be absolute directories with colons between them")
		}
		*into = append(*into, filepath.Clean(dir))
	}
	return nil
}
