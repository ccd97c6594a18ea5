package lean_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/lean"
)

// agrees fails if a reader accepts a text that the strict decoder refuses or reads otherwise.
func agrees[T any](t *testing.T, text []byte, read func([]byte, *T) bool) (accepted bool) {
	t.Helper()
	var lean, strict T
	if !read(text, &lean) {
		return false
	}
	if err := server.Strict(text, &strict); err != nil {
		t.Errorf("%q is accepted, but: %v", text, err)
	} else if !reflect.DeepEqual(lean, strict) {
		t.Errorf("%q: got %+v, the strict decoder reads %+v", text, lean, strict)
	}
	return true
}

func marshalled(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// usual are bodies as workers send them: those that the readers must accept.
func usual(t *testing.T) (claims, reports [][]byte) {
	message := "half of it"
	claims = [][]byte{
		marshalled(t, api.Claim{Worker: "w-1", N: 10, Lease: 60, Wait: 30,
			From: []job.KindState{{Kind: "test.letter", State: "Posted"}, {Kind: "test.letter", State: "Sorting"}}}),
		[]byte(`{"worker": "python", "from": [{"kind": "a.b", "state": "C"}], "n": 1}`),
		[]byte("\r\n{ \"n\" :\t0 , \"from\" : [ ] , \"worker\" : \"\" }\n"),
		[]byte("{}"),
	}
	reports = [][]byte{
		marshalled(t, api.Reports{Worker: "w", Reports: []api.Report{{Job: "j8_1", Epoch: 7, Again: true}}}),
		marshalled(t, api.Reports{Worker: "w", Lease: 60, Reports: []api.Report{{Job: "j8_1", Epoch: 7}}}),
		marshalled(t, api.Reports{Worker: "w", Reports: []api.Report{
			{Job: "j8_1", Epoch: 1, Event: "sorted", Advanced: true, Message: &message},
			{Job: "j8_2", Epoch: 999_999_999_999_999, Retry: "no route", After: 20, Cause: "net"},
			{Job: "j8_3", Epoch: 3, Fail: "lost"},
		}}),
		[]byte(`{"reports": [{"epoch": 1, "job": "x", "again": false}, {"job": "y", "epoch": 2}], "worker": "py"}`),
	}
	return claims, reports
}

// TestRead: what workers usually send is read without encoding/json, and as it reads it.
func TestRead(t *testing.T) {
	claims, reports := usual(t)
	for _, text := range claims {
		if !agrees(t, text, lean.ReadClaim) {
			t.Errorf("%q is not read", text)
		}
	}
	for _, text := range reports {
		if !agrees(t, text, lean.ReadReports) {
			t.Errorf("%q is not read", text)
		}
	}
}

// TestReadLeaves: texts about which readers of JSON may differ, and those with other members, are left to
// encoding/json.
func TestReadLeaves(t *testing.T) {
	for _, text := range []string{
		``, ` `, `null`, `[]`, `{`, `{"worker"}`, `{"worker":}`, `{"worker":"a",}`, `{"worker":"a"}x`, `{,}`,
		`{"worker":"a" "n":1}`, `{"worker":"a","worker":"b"}`, `{"Worker":"a"}`, `{"worker":null}`, `{"worker":1}`,
		`{"worker":"a\n"}`, `{"worker":"\u0061"}`, "{\"worker\":\"\x00\"}", "{\"worker\":\"\xff\"}", `{"worker":"é"}`,
		`{"n":01}`, `{"n":-1}`, `{"n":1.0}`, `{"n":1e3}`, `{"n":+1}`, `{"n":""}`, `{"n":}`, `{"n":1234567890123456}`,
		`{"from":{}}`, `{"from":[1]}`, `{"from":[{}`, `{"from":[{},]}`, `{"from":[{"kind":"a","kind":"b"}]}`,
		`{"more":1}`, `{"reports":[{"again":1}]}`, `{"reports":[{"again":tru}]}`, `{"reports":[{"again":True}]}`,
		`{"reports":[{"data":{}}]}`, `{"reports":[{"epoch":1,"epoch":1}]}`, `{"reports":[[]]}`, `{"reports":[{}]]}`,
	} {
		if lean.ReadClaim([]byte(text), new(api.Claim)) || lean.ReadReports([]byte(text), new(api.Reports)) {
			t.Errorf("%q is read", text)
		}
	}
}

// TestReadMutations changes usual bodies at random: none that is accepted is read otherwise than by the strict decoder.
func TestReadMutations(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	claims, reports := usual(t)
	accepted := 0
	const rounds = 50_000
	for range rounds {
		if agrees(t, mutated(chance, claims), lean.ReadClaim) {
			accepted++
		}
		if agrees(t, mutated(chance, reports), lean.ReadReports) {
			accepted++
		}
	}
	if accepted < rounds/50 || accepted > rounds {
		t.Errorf("%d of %d texts were accepted: the mutations prove little", accepted, 2*rounds)
	}
}

// mutated returns one of the texts with up to three changes.
func mutated(chance *rand.Rand, texts [][]byte) []byte {
	pieces := []string{"", `"`, `\`, "{", "}", "[", "]", ",", ":", " ", "0", "1", "-", ".", "e", "true", "null", "\x00",
		"\xc3", "\xff", `\ud800`, `"n":2,`, `"worker":"b",`, `"epoch":3,`, "K", "\u212a"}
	text := append([]byte{}, texts[chance.IntN(len(texts))]...)
	for range 1 + chance.IntN(3) {
		at := chance.IntN(len(text) + 1)
		to := min(len(text), at+chance.IntN(3))
		text = fmt.Append(nil, string(text[:at])+pieces[chance.IntN(len(pieces))]+string(text[to:]))
	}
	return text
}

func FuzzReadReports(f *testing.F) {
	f.Add([]byte(`{"worker":"w","reports":[{"job":"j","epoch":1,"again":true}]}`))
	f.Add([]byte("{\"worker\":\"\xff\",\"reports\":[{\"retry\":\"\\ud800\"}]}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		agrees(t, text, lean.ReadReports)
		agrees(t, text, lean.ReadClaim)
	})
}
