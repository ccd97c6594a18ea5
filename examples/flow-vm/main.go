// Flow-vm brings up a virtual machine: an address and a volume at once, then a boot that is tried on one host after
// the other. The first host is full; what was prepared on it is reverted before the second is tried. A program that
// ends in between goes on with the same flow built anew: here it is suspended, and resumed by another Runner.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/stagepost/stagepost/flow"
)

// volume is where the machine keeps its data.
type volume struct {
	ID        string
	Gigabytes int
}

var (
	image  = flow.Name[string]("image")
	addr   = flow.Name[string]("address")
	disk   = flow.Name[volume]("volume")
	host   = flow.Name[string]("host")
	claim  = flow.Name[string]("claim")
	server = flow.Name[string]("server")
)

// cloud is what the tasks work on.
type cloud struct {
	out  io.Writer
	full string // a host without capacity
}

func (c *cloud) lease(context.Context) (string, error) {
	return "10.0.0.7", nil
}

func (c *cloud) release(_ context.Context, made *string) error {
	if made != nil { // else there is nothing to give back
		fmt.Fprintln(c.out, "released", *made)
	}
	return nil
}

func (c *cloud) create(_ context.Context, image string) (volume, error) {
	return volume{"vol-" + image, 20}, nil
}

func (c *cloud) remove(_ context.Context, _ string, made *volume) error {
	if made != nil {
		fmt.Fprintln(c.out, "removed", made.ID)
	}
	return nil
}

func (c *cloud) reserve(_ context.Context, host string) (string, error) {
	fmt.Fprintln(c.out, "reserved on", host)
	return "claim on " + host, nil
}

func (c *cloud) drop(_ context.Context, _ string, made *string) error {
	if made != nil {
		fmt.Fprintln(c.out, "dropped", *made)
	}
	return nil
}

func (c *cloud) boot(_ context.Context, host, addr string, v volume) (string, error) {
	if host == c.full {
		return "", errors.New(host + " has no capacity")
	}
	return fmt.Sprintf("server at %s on %s with %s of %d GB", addr, host, v.ID, v.Gigabytes), nil
}

// build makes the flow. It is the same whenever it is made: records are found by the names of the tasks.
func (c *cloud) build() *flow.Flow {
	hosts := flow.ForEach("host-a", "host-b")
	hosts.Result = host.String()
	return flow.Linear("vm",
		flow.Unordered("parts",
			flow.Func0("lease-address", addr, c.lease, c.release),
			flow.Func1("create-volume", image, disk, c.create, c.remove),
		),
		flow.Linear("place",
			flow.Func1("reserve", host, claim, c.reserve, c.drop),
			flow.Func3("boot", host, addr, disk, server, c.boot, nil),
		).With(hosts),
	)
}

func run(ctx context.Context, out io.Writer) error {
	c := &cloud{out: out, full: "host-a"}
	storage, workers := flow.NewMemory(), flow.NewPool(2)
	var first *flow.Runner
	pause := func(e flow.Event) {
		if e.Atom == "reserve" && e.New == flow.Success {
			first.Suspend() // as an operator would
		}
	}
	first, err := flow.New(c.build(), flow.Options{Storage: storage, Workers: workers, Inject: flow.Put(image,
		"debian"), Listeners: []flow.Listener{pause}})
	if err != nil {
		return err
	}
	if err := first.Run(ctx); err != nil {
		return err
	}
	fmt.Fprintln(out, first.State())
	second, err := flow.New(c.build(), flow.Options{Storage: storage, Workers: workers})
	if err != nil {
		return err
	}
	if err := second.Run(ctx); err != nil {
		return err
	}
	is, err := flow.Get(second, server)
	fmt.Fprintln(out, second.State(), is)
	return err
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}
