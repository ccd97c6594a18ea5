package compute

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Service is what users can ask for: a queue with quotas, limits, and the agents that serve it.
type Service struct {
	Name        string
	RunsPerUser int               // jobs of one user that hold a slot. Defaults to 5
	MaxRuns     int               // jobs that hold a slot. Defaults to 10
	Agents      []string          // names of the executors that serve it; none: all that say they do
	Limits      Limits            // of a job that asks for none
	Max         Limits            // that a job may ask for
	Env         map[string]string // of every job
	LeaveInputs bool              // results do not hold unchanged inputs
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
			wrong = append(wrong, fmt.Errorf("service %q: a name has 1 to 64 lower-case letters, digits, dots, dashes and underscores", s.Name))
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
		if err := s.Limits.Within(s.Max); err != nil {
			wrong = append(wrong, fmt.Errorf("service %q: its own limits are beyond its maximum: %w", s.Name, err))
		}
	}
	return services, errors.Join(wrong...)
}

// Quotas are the limits of a service as claims obey them: they are counted in the commit that lets a job begin, so that no number of servers overshoots
// (spec/orchestrator.md W13, reliability hole J2).
func (s *Service) Quotas() []job.Limit {
	limit := job.Limit{Kind: JobKind, Guard: []lifecycle.State{Queued}, Occupy: SlotStates(), Group: s.Name}
	user, all := limit, limit
	user.Name, user.PerOwner, user.Max = "runs-per-user", true, s.RunsPerUser
	all.Name, all.Max = "max-runs", s.MaxRuns
	return []job.Limit{user, all}
}

// Effective gives the limits of a job that asked for some.
func (s *Service) Effective(asked Limits) (Limits, error) {
	if err := asked.Within(s.Max); err != nil {
		return Limits{}, err
	}
	return asked.Over(s.Limits), nil
}

// patience is how long a job may be in Running by the server's own clock: its agent ends it before that.
func (s *Service) patience(asked Limits) time.Duration {
	l := asked.Over(s.Limits)
	if l.Wall <= 0 {
		return 0
	}
	return l.Wall + l.Wall/10 + 5*time.Minute
}
