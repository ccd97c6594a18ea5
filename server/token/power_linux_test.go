package token

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/store/crash/power"
)

func TestMain(m *testing.M) {
	power.Main()
	os.Exit(m.Run())
}

// A power cut at any point leaves a token file as it was or as it is: a token that was added is there, one that was
// revoked does not come back. The controls leave out one sync each.
func TestPowerCut(t *testing.T) {
	power.CheckEach(t, 4, cutTokens, ".tokens.*", "conf")
}

// cutTokens adds two tokens, revokes the first and cuts the power at each point.
func cutTokens(t *testing.T, names bool, ignore ...string) (cuts int, wrong []string) {
	t.Helper()
	d := power.Mount(t, power.Options{Every: true, Names: names, Ignore: ignore})
	dir := filepath.Join(d.Dir, "conf")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	above, err := os.Open(d.Dir)
	if err == nil {
		err = errors.Join(above.Sync(), above.Close())
	}
	name := filepath.Join(dir, "tokens")
	first, second := Entry{Hash: identity.Key{1}, Role: identity.Depositor, Owner: "ann"},
		Entry{Hash: identity.Key{2}, Role: identity.Admin, Owner: "bob"}
	states := [][]identity.Key{nil, {first.Hash}, {first.Hash, second.Hash}, {second.Hash}}
	var confirmed []int // number of the first image after each change
	for _, change := range []func() error{
		func() error { return Add(name, first) },
		func() error { return Add(name, second) },
		func() error { _, err := Revoke(name, first.Hash.String(), time.Now(), "olga"); return err },
	} {
		if err = errors.Join(err, change()); err != nil {
			t.Fatal(err)
		}
		confirmed = append(confirmed, len(d.Images(t)))
	}
	images := append(d.Images(t), d.Image(t))
	for i, image := range images {
		least := 0
		for least < len(confirmed) && i >= confirmed[least] {
			least++
		}
		all, err := Read(filepath.Join(image, "conf", "tokens"))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		var got []identity.Key
		for _, e := range all {
			got = append(got, e.Hash)
		}
		ok := err == nil
		found := false
		for _, want := range states[least:min(least+2, len(states))] {
			found = found || fmt.Sprint(got) == fmt.Sprint(want)
		}
		if !ok || !found {
			wrong = append(wrong, fmt.Sprintf("cut %d of %d: %v, %v", i, len(images), got, err))
		}
	}
	return len(images), wrong
}
