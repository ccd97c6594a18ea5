package draw_test

import (
	"fmt"
	"testing"

	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/lifecycle/draw"
)

// parcel is a small lifecycle with one stage of each kind.
func parcel() *lifecycle.Table {
	return lifecycle.Must("parcel",
		lifecycle.OnQueue("Open", "A customer brings it here; a packer takes it.",
			lifecycle.OnPass("begin", "Packing", lifecycle.Worker, "A packer is free."),
			lifecycle.On("hold", "Held", lifecycle.Operator, "The shop is closed.")).Bounded("a packer who cannot begin asks a person"),
		lifecycle.OnWait("Held", "The shop brings it here and releases it.",
			lifecycle.On("release", "Open", lifecycle.Operator, "The shop is open again.")),
		lifecycle.OnWork("Packing", "A packer collects the goods.",
			lifecycle.OnPass("finish", "Sent", lifecycle.Worker, "The parcel is complete."),
			lifecycle.OnFail("fail", "Broken", lifecycle.Worker|lifecycle.Timer, "Something is missing.")),
		lifecycle.OnEnd("Sent", lifecycle.OK, "The carrier has it."),
		lifecycle.OnEnd("Broken", lifecycle.Failed, "A person has to check it.",
			lifecycle.OnReenter("retry", lifecycle.Operator, "The goods are there now.", "Packing")),
	)
}

// A diagram comes from the table, with the current state and what is possible marked.
func ExampleMermaid() {
	fmt.Print(draw.Mermaid(parcel(), draw.View{Current: lifecycle.Position{State: "Open"}, By: lifecycle.Operator}))
	// Output:
	// stateDiagram-v2
	//     direction TB
	//     [*] --> Open
	//     Open --> Packing : begin
	//     Open --> Held : hold
	//     Held --> Open : release
	//     Packing --> Sent : finish
	//     Packing --> Broken : fail
	//     Sent --> [*]
	//     Broken --> Packing : retry
	//     Broken --> [*]
	//     classDef current fill:#ffe29a,color:#1c2430,stroke:#1c2430,stroke-width:3px
	//     class Open current
	//     classDef legal stroke:#0b57d0,stroke-width:3px
	//     class Held legal
}

// BenchmarkSVG is one drawing, layout included.
func BenchmarkSVG(b *testing.B) {
	b.ReportAllocs()
	table := parcel()
	for b.Loop() {
		if draw.SVG(table, draw.View{}) == "" {
			b.Fatal("nothing drawn")
		}
	}
}
