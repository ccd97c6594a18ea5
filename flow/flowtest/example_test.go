package flowtest_test

import (
	"context"
	"fmt"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/flowtest"
)

// A Capture is a listener: it keeps what happens, and Await waits for it.
func ExampleCapture() {
	var c flowtest.Capture
	r, err := flow.New(flow.Linear("f", flow.Sleep("nap", 0)), flow.Options{Listeners: []flow.Listener{c.Listen}})
	if err != nil {
		fmt.Println(err)
		return
	}
	go r.Run(context.Background())
	if _, err := c.Await(context.Background(), flowtest.Reached("f", flow.Success)); err != nil {
		fmt.Println(err)
	}
	fmt.Println(&c)
	// Output:
	// f RUNNING, nap RUNNING, nap SUCCESS, f SUCCESS
}
