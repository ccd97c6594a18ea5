package computehttp

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
)

// Bounds of an order (check S5).
const (
	mostOrder     = 4 << 20 // bytes of the part `order` of a form
	mostEnv       = 500     // variables
	mostEnvAll    = 256 << 10
	mostVariable  = 128 << 10 // of one with its name: Linux runs no program with more (MAX_ARG_STRLEN, execve(2))
	mostLabels    = 64
	mostFormFiles = 10_000 // files of an order
)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// checkCompute reports what is wrong with an order as it stands.
func checkCompute(o *api.ComputeOrder) error {
	if o.Service == "" {
		return job.Errorf(job.Invalid, "compute", "", "service is missing")
	}
	for name, text := range map[string]string{"service": o.Service, "name": o.Name, "owner": o.Owner} {
		if err := server.CheckName(name, text); err != nil {
			return err
		}
	}
	if err := server.CheckText("callback", o.Callback, server.MostNote); err != nil {
		return err
	}
	if err := server.CheckText("note", o.Note, server.MostNote); err != nil {
		return err
	}
	if p := o.Priority; p != nil && (*p < job.FirstPriority || *p > job.LastPriority) {
		return job.Errorf(job.Invalid, "compute", "", "priority must be %d to %d, not %d", job.FirstPriority,
			job.LastPriority, *p)
	}
	if len(o.Files)+len(o.Uploads) > mostFormFiles {
		return job.Errorf(job.Invalid, "compute", "", "an order has at most %d files", mostFormFiles)
	}
	if err := checkEnv(o.Env); err != nil {
		return err
	}
	if err := checkLabels(o.Labels); err != nil {
		return err
	}
	if _, err := job.Required(o.Requires...); err != nil {
		return err
	}
	return notNegative(o.Limits)
}

func notNegative(l api.ComputeLimits) error {
	if err := limitsOf(l).Within(compute.Limits{}); err != nil {
		return job.Errorf(job.Invalid, "compute", "", "limits: %w", err)
	}
	return nil
}

func checkEnv(env map[string]string) error {
	all := 0
	for name, value := range env {
		if all += len(name) + len(value) + 2; !envName.MatchString(name) {
			return job.Errorf(job.Invalid, "compute", "", "%.60q is no name of a variable", name)
		}
		if strings.ContainsRune(value, 0) || !utf8.ValidString(value) {
			return job.Errorf(job.Invalid, "compute", "", "the variable %s has a NUL in it, or is no text", name)
		}
		if len(name)+len(value)+2 > mostVariable {
			return job.Errorf(job.Invalid, "compute", "",
				"the variable %s has more than %d bytes, with which no program can be run", name, mostVariable)
		}
	}
	if len(env) > mostEnv || all > mostEnvAll {
		return job.Errorf(job.Invalid, "compute", "", "env has at most %d variables and %d bytes", mostEnv, mostEnvAll)
	}
	return nil
}

func checkLabels(labels map[string]string) error {
	if len(labels) > mostLabels {
		return job.Errorf(job.Invalid, "compute", "", "a job has at most %d labels", mostLabels)
	}
	for name, value := range labels {
		if name == "" || strings.ContainsAny(name, "=,") {
			return job.Errorf(job.Invalid, "compute", "", "%.60q is no name of a label: it must have no = and no comma",
				name)
		}
		for _, text := range []string{name, value} {
			if err := server.CheckName("a label", text); err != nil {
				return err
			}
		}
		if strings.Contains(value, ",") {
			return job.Errorf(job.Invalid, "compute", "",
				"the label %s has a comma in it, which stands between labels in a query", name)
		}
	}
	return nil
}

// mayCall refuses an order whose callback its service does not allow, before its files come. The application checks it
// again.
func mayCall(app Compute, o *api.ComputeOrder) error {
	for _, s := range app.Services() {
		if s.Name == o.Service {
			if err := s.CheckCallback(o.Callback); err != nil {
				return job.Errorf(job.Invalid, "compute", "", "%w", err)
			}
		}
	}
	return nil
}
