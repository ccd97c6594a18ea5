package computeserve

import (
	"context"
	"errors"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/server/identity"
)

// TestTunnelNames refuses agents that call themselves as one that is reached otherwise. The control is any other name.
func TestTunnelNames(t *testing.T) {
	c := &tunnels{taken: []string{"local", "node1"}, allowed: map[string]identity.Services{}}
	for name, ok := range map[string]bool{"local": false, "node1": false, "far": true} {
		got, err := c.authenticate(httptest.NewRequest("GET", "/api/v1/compute/tunnel?agent="+name, nil))
		if got != name || (err == nil) != ok {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

// offering is an agent that offers services and takes every parcel.
type offering struct {
	telling
	services []string
}

func (o *offering) Capacity(context.Context) (compute.Capacity, error) {
	return compute.Capacity{Services: slices.Clone(o.services)}, nil
}

func (o *offering) Submit(context.Context, *compute.Parcel) (compute.Notice, error) {
	return compute.Notice{}, nil
}

// TestLimitedAgent: an agent gets the jobs of the services that its certificate names, whatever it offers.
func TestLimitedAgent(t *testing.T) {
	for _, c := range []struct {
		allowed identity.Services
		offers  []string
		want    []string // nil: it has no capacity
		python  bool
	}{
		{"python,r", nil, []string{"python", "r"}, true},
		{"python,r", []string{"r", "perl"}, []string{"r"}, true},
		{"r", []string{"python"}, nil, false},
		{"*", []string{"perl"}, []string{"perl"}, true},
		{"*", []string{}, []string{}, true},
	} {
		x := &limited{&offering{services: c.offers}, func() identity.Services { return c.allowed }}
		room, err := x.Capacity(t.Context())
		if (err == nil) != (c.want != nil) || err == nil && !slices.Equal(room.Services, c.want) {
			t.Errorf("%s of %v: got %v, %v", c.allowed, c.offers, room.Services, err)
		}
		if _, err := x.Submit(t.Context(), &compute.Parcel{Service: "python"}); (err == nil) != c.python ||
			err != nil && !errors.Is(err, compute.ErrNotSent) {
			t.Errorf("%s: a parcel of python: %v", c.allowed, err)
		}
	}
}
