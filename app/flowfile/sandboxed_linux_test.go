package flowfile

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/flowfile/process"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/flow"
)

// boxes are the tiers that work here, opened once.
var boxes = map[string]*sandbox.Sandbox{}

func TestMain(m *testing.M) {
	sandbox.Init()
	for _, tier := range []string{sandbox.Native, sandbox.Bwrap, sandbox.None} {
		if box, err := sandbox.Open(context.Background(),
			sandbox.Options{Tier: tier, Name: "stagepost-flowfile-" + tier}); err == nil {
			boxes[tier] = box
		}
	}
	code := m.Run()
	for _, box := range boxes {
		_ = box.Close()
	}
	os.Exit(code)
}

// confined gives a commander for each tier that works here.
func confined(t *testing.T, test func(t *testing.T, f *process.Confined)) {
	for tier, box := range boxes {
		t.Run(tier, func(t *testing.T) { test(t, &process.Confined{Sandbox: box, Temp: t.TempDir()}) })
	}
}

type commander func(context.Context, *process.Command) (*process.Output, error)

func (c commander) Run(ctx context.Context, command *process.Command) (*process.Output, error) {
	return c(ctx, command)
}

// TestLimitFails makes a failure of a task out of a limit that was met, with what the command had stated by then.
// Neither of its files alone goes beyond the limit.
func TestLimitFails(t *testing.T) {
	confined(t, func(t *testing.T, f *process.Confined) {
		f.Limits.Disk = 1 << 20
		o := Options{Commands: true, Commander: f}
		_, err := one(t, "  - task: a\n    run: echo begun >&2; head -c 700000 /dev/zero > a; head -c 700000 /dev/zero > b; sleep 600\n", o, "")
		got := failureOf(t, err)
		var e *CommandError
		if !errors.As(err, &e) || got.Type != TypeCommandFailed || got.Message != "the command wrote more than its 1 MiB: begun" {
			t.Errorf("%v", got)
		}
	})
}

// TestLimitCounts: a command that met a limit has failed, also with the exit code 0.
func TestLimitCounts(t *testing.T) {
	for limit, want := range map[string]string{"": "", "it wrote more than it may": "it wrote more than it may"} {
		o := Options{Commands: true, Commander: commander(func(context.Context, *process.Command) (*process.Output,
			error) {
			return &process.Output{Limit: limit}, nil
		})}
		_, err := one(t, "  - task: a\n    run: exit 0\n", o, "")
		if limit == "" && err != nil || limit != "" && failureOf(t, err).Message != want {
			t.Errorf("%q: %v", limit, err)
		}
	}
}

// TestConfinedFlow runs a whole flow with hostile values in each tier.
func TestConfinedFlow(t *testing.T) {
	confined(t, func(t *testing.T, f *process.Confined) {
		for _, v := range hostile {
			r := begin(t, "flow: f\ninputs: {v: {required: true}}\nlinear:\n  - task: a\n    requires: [v]\n    run: printf '%s.' \"$v\"; [ -z \"$(ls)\" ]\n    output: text\n    provides: x\n",
				Options{Commands: true, Commander: f}, flow.Values{"v": v})
			if err := r.Run(t.Context()); err != nil {
				t.Errorf("%.30q: %v", v, err)
				continue
			}
			got, _ := r.Value("x")
			if text := got.Any().(string); strings.TrimSpace(text) != strings.TrimSpace(v+".") {
				t.Errorf("%.60q came as %.60q", v, text)
			}
		}
	})
}
