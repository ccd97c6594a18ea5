//go:build !linux

package cgroup

import (
	"errors"
	"runtime"
)

// Manager makes groups; there is none on this system.
type Manager struct{}

// Group is never made on this system.
type Group struct{}

// Open gives no manager here: only Linux has control groups.
func Open(Options) (*Manager, []Check, error) {
	return nil, []Check{{Name: "cgroup", Detail: runtime.GOOS + " has no control groups", Remedy: "run jobs on Linux"}},
		nil
}

func (m *Manager) Version() string                    { return "" }
func (m *Manager) New(string, Limits) (*Group, error) { return nil, errors.ErrUnsupported }
func (m *Manager) Sweep(string) error                 { return errors.ErrUnsupported }
func (g *Group) Add(int) error                        { return errors.ErrUnsupported }
func (g *Group) FD() (int, bool)                      { return 0, false }
func (g *Group) Usage() (Usage, error)                { return Usage{}, errors.ErrUnsupported }
func (g *Group) Pids() ([]int, error)                 { return nil, errors.ErrUnsupported }
func (g *Group) Kill() error                          { return errors.ErrUnsupported }
func (g *Group) Remove() error                        { return errors.ErrUnsupported }
