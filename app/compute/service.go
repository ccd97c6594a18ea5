package compute

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Service is what users can ask for: a queue with quotas, limits, and the agents that serve it.
type Service struct {
	Name        string
	RunsPerUser int               // jobs of one user that hold a slot. Defaults to 5
	MaxRuns     int               // jobs that hold a slot. Defaults to 10
	Agents      []string          // names of the executors that serve it; none: all that declare they do
	Limits      Limits            // of a job that asks for none
	Max         Limits            // that a job may ask for
	Env         map[string]string // of every job
	Requires    []string          // labels that an agent must have to run its jobs
	LeaveInputs bool              // results do not hold unchanged inputs
	Callbacks   *Callbacks        // nil: an order must name no callback

	// Unlimited names the executors that serve it now if none of them has limits, as far as is known: a job that asks
	// for some is refused. nil, or "": some enforce them.
	Unlimited func() string
}

// NeverRuns reports what is wrong with a quota of 0 of a service: the reason why nothing runs would have to be guessed.
func NeverRuns(service string) string {
	return "is 0: no job of the service would ever run. Write 1 or more; to keep its jobs waiting for a time: " +
		"stagepost hold --group " + service + " --note WHY"
}

// serviceName is what a service may be called: it stands in URLs and in the names of variables.
var serviceName = regexp.MustCompile(`^[a-z0-9]([a-z0-9_.-]{0,62}[a-z0-9])?$`)

// CheckServices completes services and gives all mistakes in them.
func CheckServices(services []Service) ([]Service, error) {
	var wrong []error
	seen := map[string]bool{}
	services = slices.Clone(services)
	for i := range services {
		s := &services[i]
		if !serviceName.MatchString(s.Name) {
			wrong = append(wrong,
				fmt.Errorf("service %q: a name has 1 to 64 lower-case letters, digits, dots, dashes and underscores",
					s.Name))
		}
		if seen[s.Name] {
			wrong = append(wrong, fmt.Errorf("service %q is there twice", s.Name))
		}
		seen[s.Name] = true
		if s.RunsPerUser == 0 {
			s.RunsPerUser = 5
		}
		if s.MaxRuns == 0 {
			s.MaxRuns = 10
		}
		if s.RunsPerUser < 0 || s.MaxRuns < 0 {
			wrong = append(wrong, fmt.Errorf("service %q: quotas must be at least 1", s.Name))
		}
		if err := s.Max.Within(Limits{}); err != nil {
			wrong = append(wrong, fmt.Errorf("service %q: its maximum: %w", s.Name, err))
		} else if err := s.Limits.Within(Limits{}); err != nil {
			wrong = append(wrong, fmt.Errorf("service %q: its own limits: %w", s.Name, err))
		} else if err := s.Limits.Within(s.Max); err != nil {
			wrong = append(wrong, fmt.Errorf("service %q: its own limits are beyond its maximum: %w", s.Name, err))
		}
		if _, err := job.Required(s.Requires...); err != nil {
			wrong = append(wrong, fmt.Errorf("service %q: requires: %s", s.Name, job.Reason(err)))
		}
		if err := s.Callbacks.Check(); err != nil {
			wrong = append(wrong, fmt.Errorf("service %q: %w", s.Name, err))
		}
	}
	return services, errors.Join(wrong...)
}

// Quotas are the limits of a service as claims obey them: they are counted in the commit that lets a job begin, so that
// no number of servers overshoots.
func (s *Service) Quotas() []job.Limit {
	limit := job.Limit{Kind: JobKind, Guard: []lifecycle.State{Queued}, Occupy: SlotStates(), Group: s.Name}
	user, all := limit, limit
	user.Name, user.PerOwner, user.Max = "runs-per-user", true, s.RunsPerUser
	all.Name, all.Max = "max-runs", s.MaxRuns
	return []job.Limit{user, all}
}

// Effective gives the limits of a job that asked for some. What the service itself sets is no reason to refuse: `why`
// reports when nothing enforces it.
func (s *Service) Effective(asked Limits) (Limits, error) {
	if err := asked.Within(s.Max); err != nil {
		return Limits{}, err
	}
	if names := asked.Names(); len(names) > 0 && s.Unlimited != nil {
		if only := s.Unlimited(); only != "" {
			return Limits{}, fmt.Errorf("limits (%s) cannot be had: only %s serve %s, and they know none",
				strings.Join(names, ", "), only, s.Name)
		}
	}
	return asked.Over(s.Limits), nil
}

// Names lists the limits that are set.
func (l Limits) Names() []string {
	var names []string
	for _, one := range []struct {
		name string
		set  bool
	}{
		{"wall", l.Wall != 0}, {"cpu", l.CPU != 0}, {"memory", l.Memory != 0}, {"disk", l.Disk != 0},
		{"output", l.Output != 0}, {"processes", l.Processes != 0}, {"cores", l.Cores != 0}, {"files", l.Files != 0},
	} {
		if one.set {
			names = append(names, one.name)
		}
	}
	return names
}

// patience is how long a job may be in Running by the server's own clock: its agent ends it before that.
func (s *Service) patience(asked Limits) time.Duration {
	l := asked.Over(s.Limits)
	if l.Wall <= 0 {
		return 0
	}
	return l.Wall + l.Wall/10 + 5*time.Minute
}

// serviceNames lists the services for people, the first 20 of them.
func (a *App) serviceNames() string {
	names := slices.Sorted(maps.Keys(a.services))
	if n := len(names); n > 21 { // as in what was left out: the rest are two at least
		names = append(names[:20], fmt.Sprintf("and %d more", n-20))
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}
