package notation_test

import (
	"fmt"

	"github.com/stagepost/stagepost/lifecycle/notation"
)

// A diagram from a document is checked as it stands.
func ExampleLint() {
	diagram := `stateDiagram-v2
    [*] --> Open
    Open --> Packing : begin
    Packing --> Completed : finish
    Packing --> Failed : fail
    Failed --> Completed : close
    Completed --> [*]
    Failed --> [*]
`
	for _, p := range notation.Lint("order.mmd", []byte(diagram)) {
		fmt.Println(p)
	}
	// Output:
	// 4:17: Completed: the end means success and can be reached with outcome failed [wrong-outcome]
	// 6:5: Failed -close->: an end may be left only by an operator, by retention or by a restart, not by worker,timer,engine to Completed [end-left]
}
