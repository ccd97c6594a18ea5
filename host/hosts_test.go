package host

import (
	"slices"
	"testing"
)

func TestHosts(t *testing.T) {
	s := NewSettings()
	if s.Hosts = "a.example, B.example."; !slices.Equal(s.hosts(), []string{"a.example", "b.example"}) {
		t.Errorf("hosts: got %q", s.hosts())
	}
}
