//go:build linux

package trials

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stagepost/stagepost/edge/sandbox"
)

var kills = flag.Int("kills", 1, "how often TestKills goes through its table")

// program is the built stagepost, and common a directory that jobs without namespaces can reach.
var program, common string

func TestMain(m *testing.M) {
	sandbox.Init()
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil { // trials wait more than they compute
		panic(err)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "stagepost-trials-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	defer closeBoxes()
	program, common = filepath.Join(dir, "stagepost"), dir
	if out, err := exec.Command("go", "build", "-o", program, "github.com/stagepost/stagepost/cmd/stagepost").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %s\n", err, out)
		return 1
	}
	return m.Run()
}

var boxes = struct {
	mu   sync.Mutex // guards open
	open map[string]*sandbox.Sandbox
}{open: map[string]*sandbox.Sandbox{}}

// box gives the sandbox of a tier, one for all tests.
func box(t *testing.T, tier string) *sandbox.Sandbox {
	t.Helper()
	boxes.mu.Lock()
	defer boxes.mu.Unlock()
	if b := boxes.open[tier]; b != nil {
		return b
	}
	b, err := sandbox.Open(context.Background(),
		sandbox.Options{Tier: tier, Name: fmt.Sprintf("trials-%d-%s", os.Getpid(), tier)})
	if err != nil {
		t.Fatal(err)
	}
	boxes.open[tier] = b
	return b
}

func closeBoxes() {
	boxes.mu.Lock()
	defer boxes.mu.Unlock()
	for _, b := range boxes.open {
		if err := b.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}
