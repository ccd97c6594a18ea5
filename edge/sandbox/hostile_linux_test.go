package sandbox

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
)

// hostileMarker is the first argument of the test program when it runs as one of its helpers.
const hostileMarker = "hostile"

// hostileMain is the test program inside of a sandbox, or as the agent that is killed.
func hostileMain(args []string) int {
	switch args[0] {
	case "parent":
		return parentMain(args[1], args[2], args[3])
	case "calls":
		callsMain()
		return 0
	case "call":
		calls = slices.DeleteFunc(calls, func(c call) bool { return c.name != args[1] })
		callsMain()
		return 0
	case "threads":
		threads()
		return 0
	case "layers":
		fmt.Println(layersLeft())
		return 0
	case "x32":
		_, _, e := syscall.RawSyscall(0x40000000+39, 0, 0, 0)
		fmt.Println(e)
		return 0
	}
	return 2
}

const parentName = "stagepost-test-parent"

// parentMain is an agent that runs one command.
func parentMain(tier, dir, script string) int {
	s, err := Open(context.Background(), Options{Tier: tier, Name: parentName})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, err = s.Run(context.Background(), &Command{Argv: []string{"bash", "-c", script}, Dir: dir, Stdout: os.Stdout})
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// threads begins as many as it may; the runtime panics when it gets no more.
func threads() {
	var all sync.WaitGroup
	for range 500 {
		all.Add(1)
		go func() {
			runtime.LockOSThread()
			all.Done()
			select {}
		}()
	}
	all.Wait()
}
