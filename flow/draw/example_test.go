package draw_test

import (
	"fmt"
	"time"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/draw"
)

func ExampleTree() {
	f := flow.Linear("publish", &flow.Task{Name: "fetch"},
		flow.Unordered("check", &flow.Task{Name: "virus-scan"}, &flow.Task{Name: "checksums"}).With(flow.Times(3)))
	o, err := flow.OutlineOf(f)
	if err != nil {
		fmt.Println(err)
		return
	}
	began := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	records := []flow.Record{ // as storage has them
		{Name: "fetch", Kind: flow.KindTask, State: flow.Success, Began: began, Ended: began.Add(2 * time.Second)},
		{Name: "check_retry", Kind: flow.KindRetry, State: flow.Success, History: make(flow.History, 2)},
		{Name: "virus-scan", Kind: flow.KindTask, State: flow.Running, Began: began.Add(3 * time.Second),
			Progress: 0.4},
		{Name: "checksums", Kind: flow.KindTask, State: flow.FailureState,
			Failure: &flow.Failure{Type: "Mismatch", Message: "3 of 90 files"}},
	}
	for _, line := range draw.Tree(o, records, draw.TreeOptions{State: flow.Running, Now: began.Add(15 * time.Second),
		Width: 80}) {
		fmt.Println(line)
	}
	// Output:
	// publish              RUNNING linear 1 of 3
	// |- + fetch           SUCCESS 2.0s
	// `- check             unordered 0 of 2
	//    |- + check_retry  SUCCESS attempt 2
	//    |- > virus-scan   RUNNING 12s [####......] 40%
	//    `- ! checksums    FAILURE Mismatch: 3 of 90 files
}
