package job_test

import (
	"strings"
	"testing"

	"github.com/stagepost/stagepost/job"
)

// TestAddress: the address of a context is the one that was set last, and is bounded.
func TestAddress(t *testing.T) {
	ctx := t.Context()
	if got := job.AddressOf(ctx); got != "" {
		t.Errorf("an address without a request: %q", got)
	}
	ctx = job.WithAddress(job.WithAddress(ctx, "192.0.2.7"), "2001:db8::7")
	if got := job.AddressOf(ctx); got != "2001:db8::7" {
		t.Errorf("got %q", got)
	}
	long := strings.Repeat("f", job.MostAddress)
	if got := job.AddressOf(job.WithAddress(ctx, long+"f")); got != long {
		t.Errorf("got %d bytes", len(got))
	}
}

// TestAddressIsSealed pins the canonical form of entries with an address, and changes or removes the address.
func TestAddressIsSealed(t *testing.T) {
	list := entries()
	list[2].Address = "192.0.2.7"
	list[2].Seal(list[1].Hash)
	const want = "9dc811bee50453dabe153c94ce6a1fda0c3eb4cabc6c3e102b049dad65ed90e2"
	if got := list[2].Hash.String(); got != want {
		t.Errorf("the canonical form of audit entries with an address changed: got %s", got)
	}
	if err := job.VerifyAudit(nil, list); err != nil {
		t.Errorf("control: %v", err)
	}
	for _, other := range []string{"", "192.0.2.8", job.Withheld} {
		if list[2].Address = other; job.VerifyAudit(nil, list) == nil {
			t.Errorf("audit log: the address %q is not found to be another", other)
		}
	}
	j, history := sealed()
	second := &history[1]
	second.Address = "192.0.2.7"
	second.Seal(history[0].Hash)
	j.Head = second.Hash
	const sealedWant = "5fe458772c4d0383912740bc0ffd50fd41008fa2696a9d1d9c79ddd211c67bb7"
	if got := j.Head.String(); got != sealedWant {
		t.Errorf("the canonical form of history entries with an address changed: got %s", got)
	}
	if err := job.Verify(j, history, life); err != nil {
		t.Errorf("control: %v", err)
	}
	for _, other := range []string{"", "192.0.2.8", job.Withheld} {
		if second.Address = other; job.Verify(j, history, life) == nil {
			t.Errorf("history: the address %q is not found to be another", other)
		}
	}
}
