package layout

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzDecoders checks that no data make a reader panic, and that what is read, written and read again is the same: no
// key is lost.
func FuzzDecoders(f *testing.F) {
	for _, s := range []string{"", "null", "{}", `{"status":"Pending","x":[1]}`, `{"status":201,"token":"t"}`,
		`{"local_id":"a","primary_id":null}`, `{"manifest_url":"u","mode":"m","delete":"d"}`,
		`{"status":"Failed","retry_count":1e3,"last_modified":"2026-11-20 10:21:44 +0000"}`, "05-jid0000000001",
		"bid0000000001", "-1", "1.0", `{"status":"Failed","\u0000":"\ud800"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := ParseJobStatus(data); err == nil {
			fuzzAgain(t, data, s.Encode(), "last_modified", "last_successful_status", "retry_count", "message",
				"status")
		}
		if s, err := ParseBatchStatus(data); err == nil {
			fuzzAgain(t, data, s.Encode(), "last_modified", "message", "status")
		}
		if s, err := ParseIdentifiers(data); err == nil && s.Other != nil {
			fuzzAgain(t, data, s.Encode(), "primary_id", "local_id")
		}
		if s, err := ParseStored(data); err == nil {
			fuzzAgain(t, data, s.EncodeStore(), "manifest_url", "mode", "delete")
		}
		if s, err := ParseMetadata(data); err == nil {
			fuzzAgain(t, data, s.Encode(), "erc_who", "erc_what", "erc_when", "erc_where")
		}
		if s, err := ParseToken(data); err == nil {
			fuzzAgain(t, data, s.Encode(), "status", "token", "cloud-content-byte", "delivery-node", "message", "url",
				"anticipated-availability-time")
		}
		if p, j, ok := ParseEntry(string(data)); ok {
			q, k, again := ParseEntry(EntryName(p, j))
			if !again || k != j || q != ClampPriority(p) {
				t.Errorf("entry %q is written as %s and read as %d, %s", data, EntryName(p, j), q, k)
			}
		}
		Space(data)
	})
}

// fuzzAgain checks that the data written are an object with every other key of the data read.
func fuzzAgain(t *testing.T, read, written []byte, keys ...string) {
	before, err := ParseObject(read)
	if err != nil {
		t.Fatal(err)
	}
	after, err := ParseObject(written)
	if err != nil {
		t.Fatalf("%q is written as %q: %v", read, written, err)
	}
	if bytes.ContainsAny(written, "\n\r") {
		t.Errorf("%q is not compact", written)
	}
	for _, k := range keys {
		delete(before, k)
		delete(after, k)
	}
	if diff := cmp.Diff(before.Encode(), after.Encode()); diff != "" {
		t.Errorf("keys changed: %s", diff)
	}
}
