//go:build !linux

package agent

import "errors"

var errUnknown = errors.New("this system does not report it")

func processorTimes() (sample, error) { return sample{}, errUnknown }

// MachineMemory gives 0: not known.
func MachineMemory() int64 { return 0 }

// DiskFree returns an error: not known.
func DiskFree(string) (int64, error) { return 0, errUnknown }
