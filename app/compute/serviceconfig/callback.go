package serviceconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strings"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/webhook"
)

// Callbacks are the callbacks of a service, as a file writes them down.
type Callbacks struct {
	SecretFile string   `json:"secret_file" doc:"File with the secrets that sign callbacks, one on a line: whsec_ and base64."`
	Hosts      []string `json:"hosts" doc:"Hosts that may be called: example.org, or example.org:8443."`
	Networks   []string `json:"allow_networks" doc:"Special networks in which these hosts may lie: 10.1.0.0/16."`
}

// callbacks gives them as the application has them. What is wrong is left out: it was reported by check.
func (s *Service) callbacks() *compute.Callbacks {
	c := s.Callbacks
	if c == nil {
		return nil
	}
	all := &compute.Callbacks{Hosts: c.Hosts}
	if c.SecretFile != "" {
		all.Secrets = func() ([]webhook.Secret, error) { return readSecrets(c.SecretFile) }
	}
	for _, text := range c.Networks {
		if n, err := netip.ParsePrefix(text); err == nil {
			all.Networks = append(all.Networks, n.Masked())
		}
	}
	return all
}

// checkCallbacks reports what is wrong with the networks; the rest is the application's to check. The file of secrets
// is for checkSecrets.
func (s *Service) checkCallbacks(wrong func(field, format string, args ...any)) {
	if s.Callbacks == nil {
		return
	}
	for _, text := range s.Callbacks.Networks {
		if _, err := netip.ParsePrefix(text); err != nil {
			wrong("callbacks", "callbacks: %q is no network such as 10.1.0.0/16", text)
		}
	}
}

// checkSecrets reports whether the secrets can be read now. It is for a server: an agent reads the same services and
// needs none.
func (s *Service) checkSecrets(all *mistakes) {
	if s.Callbacks == nil || s.Callbacks.SecretFile == "" {
		return
	}
	_, err := readSecrets(s.Callbacks.SecretFile)
	if err == nil {
		return
	}
	if file := (*fs.PathError)(nil); errors.As(err, &file) {
		err = fmt.Errorf("%s: %w", file.Path, file.Err)
	}
	all.add([]string{"services", s.Name, "callbacks", "secret_file"}, "service %q: callbacks: %v", s.Name, err)
}

// mostSecrets bounds the secrets of a service: all of them sign.
const mostSecrets = 8

// readSecrets reads the secrets in a file. The error quotes none of them.
func readSecrets(name string) ([]webhook.Secret, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var all []webhook.Secret
	for i, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		s, err := webhook.ParseSecret(line)
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", name, i+1, err)
		}
		if all = append(all, s); len(all) > mostSecrets {
			return nil, fmt.Errorf("%s: more than %d secrets", name, mostSecrets)
		}
	}
	if len(all) == 0 {
		return nil, errors.New(name + ": there is no secret in it")
	}
	return all, nil
}
