package sandbox

import (
	"fmt"
	"strconv"

	"github.com/stagepost/stagepost/edge/disk"
)

// sentence reports an ending to the user.
func (e *Ending) sentence(c *Command) string {
	l := c.Limits
	switch e.Cause {
	case Memory:
		return "the command used more than its " + bytesText(l.Memory) + " of memory"
	case CPU:
		return fmt.Sprintf("the command used more than its %s of CPU time", l.CPU)
	case Timeout:
		return fmt.Sprintf("the command ran longer than %s", l.Wall)
	case Disk:
		return "the command wrote more than its " + bytesText(l.Disk)
	case Depth:
		return fmt.Sprintf("the command nested directories more than %d deep, where nothing can be measured",
			disk.MaxDepth)
	case Processes:
		return fmt.Sprintf("the command had more than %d processes and threads", l.Processes)
	case Killed:
		return "the command was ended from outside"
	case Signal:
		return "the command was ended by " + e.Signal
	}
	if e.Exit == 0 {
		return "the command ended well"
	}
	return "the command ended with exit code " + strconv.Itoa(e.Exit)
}

// bytesText is a number of bytes as an operator wrote it.
func bytesText(n int64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if size := int64(1) << (30 - 10*i); n >= size && n%size == 0 {
			return fmt.Sprintf("%d %s", n/size, unit)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
