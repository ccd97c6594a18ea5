package ocfl_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/stagepost/stagepost/format/ocfl"
)

func Example() {
	dir, err := os.MkdirTemp("", "ocfl")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	root, err := ocfl.InitRoot(dir, ocfl.DefaultLayout())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer root.Close()

	const id = "ark:/99999/fk4abc"
	letter := ocfl.File{Path: "letters/1.txt", Size: 5, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("Hello")), nil
	}}
	deposit := ocfl.Version{
		Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		User:    ocfl.User{Name: "Ingest", Address: "mailto:ingest@example.org"},
		Message: "deposit",
		Files:   []ocfl.File{letter},
	}
	for attempt := range 2 { // the second finds what the first has made
		added, err := root.AddVersion(context.Background(), id, deposit,
			ocfl.Options{Stage: fmt.Sprint("job7.", attempt), Key: "job7"})
		fmt.Println(added.Version, added.Created, err)
	}
	verified, err := root.VerifyVersion(context.Background(), id, "")
	fmt.Println(verified.Files, verified.Bytes, err)
	report, err := ocfl.Validate(context.Background(), dir)
	fmt.Println(report.Valid(), report.Codes(), err)
	// Output:
	// v1 true <nil>
	// v1 false <nil>
	// 1 5 <nil>
	// true [] <nil>
}
