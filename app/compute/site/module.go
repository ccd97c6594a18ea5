package site

import (
	"errors"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/compute"
)

// Module is what a module beside compute adds to files of services. The zero Module adds nothing.
type Module struct {
	Policies []Policy // words that `policy` takes beside off
	Legacy   bool     // the module reaches agents by `legacy`
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

// Read is that of no module.
func Read(name string) (*Site, error) { return Module{}.Read(name) }

// ReadServer is that of no module.
func ReadServer(name string) (*Site, error) { return Module{}.ReadServer(name) }

// Parse is that of no module.
func Parse(text []byte) (*Site, error) { return Module{}.Parse(text) }

// Added is a service that the module adds, with names of the agents that serve it.
type Added struct {
	Service Service
	Agents  []string
	From    string // where it is written, for people
}

// Add takes in services that the module adds. A service or agent that the file has already is a mistake. All mistakes
// are given, joined.
func (s *Site) Add(all []Added) error {
	wrong := &mistakes{root: s.root}
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
