package authority_test

import (
	"bytes"
	"crypto"
	"testing"
	"time"

	"github.com/stagepost/stagepost/format/rfc3161"
	"github.com/stagepost/stagepost/format/rfc3161/authority"
)

// TestParse: an authority that is read again makes time stamps that the first one's verifier accepts.
func TestParse(t *testing.T) {
	a, err := authority.New("Test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	text, err := a.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	again, err := authority.Parse(text)
	if err != nil || !bytes.Equal(again.RootPEM(), a.RootPEM()) {
		t.Fatalf("got %v", err)
	}
	if twice, err := again.Marshal(); err != nil || !bytes.Equal(twice, text) {
		t.Errorf("got %v", err)
	}
	digest := make([]byte, crypto.SHA256.Size())
	request, err := rfc3161.NewRequest(crypto.SHA256, digest, nil)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := again.Reply(request.DER)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Verifier().Reply(request, reply); err != nil {
		t.Errorf("the first authority's root does not verify it: %v", err)
	}
	for _, bad := range [][]byte{nil, a.RootPEM(), []byte("text")} {
		if _, err := authority.Parse(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
