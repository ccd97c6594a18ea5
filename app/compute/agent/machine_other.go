//go:build !linux

package agent

import "errors"

var errUnknown = errors.New("this system does not tell")

func processorTimes() (sample, error) { return sample{}, errUnknown }

// MachineMemory gives 0: it cannot tell.
func MachineMemory() int64 { return 0 }

// DiskFree cannot tell.
func DiskFree(string) (int64, error) { return 0, errUnknown }
