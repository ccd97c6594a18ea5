package tus_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/edge/tus"
)

func TestOptions(t *testing.T) {
	w := open(t, tus.Options{MaxSize: 1000})
	for _, path := range []string{"/files", "/files/", "/files/X"} {
		got := w.want(http.StatusNoContent, http.MethodOptions, path, nil, "Tus-Resumable", "").Header()
		for name, value := range map[string]string{
			"Tus-Version": "1.0.0", "Tus-Max-Size": "1000", "Tus-Checksum-Algorithm": "sha1,sha256",
			"Tus-Extension": "creation,creation-defer-length,creation-with-upload,termination,checksum,expiration",
		} {
			if got.Get(name) != value {
				t.Errorf("%s is %q, want %q", name, got.Get(name), value)
			}
		}
	}
}

// TestWhole takes an upload from its creation to the application, in pieces.
func TestWhole(t *testing.T) {
	w := open(t, tus.Options{})
	sent := content(1000)
	at := w.create(len(sent), "Upload-Metadata", "filename cnVuLnNo,is_confidential", "X-Owner", "ann")
	head := w.want(http.StatusOK, http.MethodHead, at, nil, "X-Owner", "ann").Header()
	if head.Get("Upload-Length") != "1000" || head.Get("Upload-Offset") != "0" ||
		head.Get("Cache-Control") != "no-store" ||
		head.Get("Upload-Metadata") != "filename cnVuLnNo,is_confidential" || head.Get("Upload-Expires") == "" {
		t.Errorf("got %v", head)
	}
	id := strings.TrimPrefix(at, "/files/")
	if _, err := w.Take(id, "ann"); !errors.Is(err, tus.ErrIncomplete) {
		t.Errorf("an incomplete upload was given: %v", err)
	}
	for n := 0; n < len(sent); n += 250 {
		answer := w.patch(http.StatusNoContent, at, n, bytes.NewReader(sent[n:n+250]), "X-Owner", "ann")
		if got := answer.Header().Get("Upload-Offset"); got != strconv.Itoa(n+250) ||
			answer.Header().Get("Upload-Expires") == "" {
			t.Errorf("got %v", answer.Header())
		}
	}
	u := w.taken(at, "ann", sent)
	if u.Name != "run.sh" || !cmp.Equal(u.Metadata, map[string]string{"filename": "run.sh", "is_confidential": ""}) {
		t.Errorf("got %+v", u)
	}
	if _, err := w.Take(id, "ann"); !errors.Is(err, tus.ErrBusy) {
		t.Errorf("it was given twice: %v", err)
	}
	w.want(http.StatusLocked, http.MethodDelete, at, nil, "X-Owner", "ann")
	w.Return(id)
	w.taken(at, "ann", sent)
	if err := w.Remove(id); err != nil {
		t.Fatal(err)
	}
	w.want(http.StatusNotFound, http.MethodHead, at, nil, "X-Owner", "ann")
	if n, size, err := w.Used("ann"); n != 0 || size != 0 || err != nil {
		t.Errorf("%d uploads with %d bytes are left", n, size)
	}
}

// TestCutAtEveryOffset cuts a piece at each byte, restarts or not, and continues from the reported offset.
func TestCutAtEveryOffset(t *testing.T) {
	w := open(t, tus.Options{})
	sent := content(64)
	for n := range len(sent) {
		at := w.create(len(sent))
		w.patch(http.StatusBadRequest, at, 0, &cutBody{sent, n})
		if n%2 == 0 {
			w.reopen()
		}
		w.stands(at, n)
		w.patch(http.StatusConflict, at, n+1, bytes.NewReader(sent[n:]))
		w.patch(http.StatusNoContent, at, n, bytes.NewReader(sent[n:]))
		w.taken(at, "", sent)
	}
}

// TestCutWithChecksum loses only unverifiable bytes.
func TestCutWithChecksum(t *testing.T) {
	w := open(t, tus.Options{})
	sent := content(64)
	for n := range len(sent) - 10 {
		at := w.create(len(sent))
		w.patch(http.StatusNoContent, at, 0, bytes.NewReader(sent[:10]))
		w.patch(http.StatusBadRequest, at, 10, &cutBody{sent[10:], n}, "Upload-Checksum", checksum("sha256", sent[10:]))
		if n%2 == 0 {
			w.reopen()
		}
		w.stands(at, 10)
		w.patch(http.StatusNoContent, at, 10, bytes.NewReader(sent[10:]), "Upload-Checksum",
			checksum("sha256", sent[10:]))
		w.taken(at, "", sent)
	}
}

func TestChecksum(t *testing.T) {
	w := open(t, tus.Options{})
	sent := content(100)
	for _, algorithm := range []string{"sha1", "sha256"} {
		at := w.create(len(sent))
		w.patch(460, at, 0, bytes.NewReader(sent), "Upload-Checksum", checksum(algorithm, sent[1:]))
		w.stands(at, 0)
		w.reopen()
		w.stands(at, 0)
		w.patch(http.StatusNoContent, at, 0, bytes.NewReader(sent[:50]), "Upload-Checksum",
			checksum(algorithm, sent[:50]))
		w.patch(http.StatusNoContent, at, 50, bytes.NewReader(sent[50:]), "Upload-Checksum",
			checksum(algorithm, sent[50:]))
		w.taken(at, "", sent)
	}
	at := w.create(len(sent))
	for _, bad := range []string{"md5 1B2M2Y8AsgTpgAmY7PhCfg==", "sha1",
		"sha1 ", "sha1 !!!!", "sha1 AAAA", "sha256 " + strings.Repeat("A", 1000), "SHA1 " +
			checksum("sha1", sent)[5:]} {
		w.patch(http.StatusBadRequest, at, 0, bytes.NewReader(sent), "Upload-Checksum", bad)
	}
	w.stands(at, 0)
}

func TestRefusals(t *testing.T) {
	w := open(t, tus.Options{MaxSize: 1000})
	at := w.create(10)
	w.patch(http.StatusNoContent, at, 0, strings.NewReader("01234"))
	for _, version := range []string{"0.2.2", "2.0.0", ""} {
		answer := w.want(http.StatusPreconditionFailed, http.MethodHead, at, nil, "Tus-Resumable", version)
		if answer.Header().Get("Tus-Version") != "1.0.0" || answer.Header().Get("Upload-Offset") != "" {
			t.Errorf("got %v", answer.Header())
		}
		w.patch(http.StatusPreconditionFailed, at, 5, strings.NewReader("5"), "Tus-Resumable", version)
		w.want(http.StatusPreconditionFailed, http.MethodDelete, at, nil, "Tus-Resumable", version)
		w.want(http.StatusPreconditionFailed, http.MethodPost, "/files", nil, "Upload-Length", "1", "Tus-Resumable",
			version)
	}
	for _, media := range []string{"", "application/octet-stream", "text/plain"} {
		w.patch(http.StatusUnsupportedMediaType, at, 5, strings.NewReader("5"), "Content-Type", media)
	}
	for _, offset := range []string{"4", "6", "0", "10"} {
		w.patch(http.StatusConflict, at, 5, strings.NewReader("5"), "Upload-Offset", offset)
	}
	for _, offset := range []string{"", "-1", "+5", "5.0", " 5", "0x5", "99999999999999999999", "five"} {
		w.patch(http.StatusBadRequest, at, 5, strings.NewReader("5"), "Upload-Offset", offset)
	}
	w.patch(http.StatusRequestEntityTooLarge, at, 5, strings.NewReader("567890"))
	// of unknown length
	w.patch(http.StatusRequestEntityTooLarge, at, 5, struct{ io.Reader }{strings.NewReader("567890")})
	w.patch(http.StatusBadRequest, at, 5, strings.NewReader("5"), "Upload-Length", "11")
	w.stands(at, 5)
	for _, length := range []string{"", "-1", "1.5", "ten", "99999999999999999999"} {
		w.want(http.StatusBadRequest, http.MethodPost, "/files", nil, "Upload-Length", length)
	}
	w.want(http.StatusRequestEntityTooLarge, http.MethodPost, "/files", nil, "Upload-Length", "1001")
	w.want(http.StatusBadRequest, http.MethodPost, "/files", nil, "Upload-Length", "1", "Upload-Defer-Length", "1")
	w.want(http.StatusBadRequest, http.MethodPost, "/files", nil, "Upload-Defer-Length", "2")
	w.want(http.StatusBadRequest, http.MethodPost, "/files", nil, "Upload-Length", "1", "Upload-Concat", "partial")
	w.want(http.StatusUnsupportedMediaType, http.MethodPost, "/files", strings.NewReader("x"), "Upload-Length",
		"1", "Content-Type", "text/plain")
	for _, method := range []string{http.MethodGet, http.MethodPut, "BREW"} {
		w.want(http.StatusMethodNotAllowed, method, at, nil)
		w.want(http.StatusMethodNotAllowed, method, "/files", nil)
	}
	w.want(http.StatusNotFound, http.MethodPost, "/filesystem", nil, "Upload-Length", "1")
	w.patch(http.StatusNoContent, at, 5, strings.NewReader("56789")) // the control: none of that did any harm
	w.taken(at, "", []byte("0123456789"))
}

// TestStrangeIDs asks for what no upload can be called. The control is in every other test.
func TestStrangeIDs(t *testing.T) {
	w := open(t, tus.Options{})
	id := strings.TrimPrefix(w.create(1), "/files/")
	for _, other := range []string{
		"..%2f..%2fetc%2fpasswd", "%2e%2e", ".", "%00", id + ".json", id + ".data",
		strings.ToLower(id), id[:25], id + "A", strings.Repeat("A", 26), strings.Repeat("A", 5000), id + "/", id + "/x",
	} {
		for _, method := range []string{http.MethodHead, http.MethodPatch, http.MethodDelete} {
			w.want(http.StatusNotFound, method, "/files/"+other, nil)
		}
	}
}

func TestForeignOwner(t *testing.T) {
	w := open(t, tus.Options{})
	at := w.create(3, "X-Owner", "ann")
	w.patch(http.StatusNoContent, at, 0, strings.NewReader("abc"), "X-Owner", "ann")
	for _, method := range []string{http.MethodHead, http.MethodPatch, http.MethodDelete} {
		foreign := w.want(http.StatusNotFound, method, at, nil, "X-Owner", "bob")
		none := w.want(http.StatusNotFound, method, "/files/"+strings.Repeat("A", 26), nil, "X-Owner", "bob")
		if foreign.Body.String() != none.Body.String() || !cmp.Equal(foreign.Header(), none.Header()) {
			t.Errorf("%s distinguishes a foreign upload from none: %v %q, %v %q", method, foreign.Header(),
				foreign.Body, none.Header(), none.Body)
		}
	}
	if _, err := w.Take(strings.TrimPrefix(at, "/files/"), "bob"); !errors.Is(err, tus.ErrNotFound) {
		t.Errorf("bob got it: %v", err)
	}
	w.now.pass(25 * time.Hour)
	w.want(http.StatusNotFound, http.MethodHead, at, nil, "X-Owner", "bob")
	w.want(http.StatusGone, http.MethodHead, at, nil, "X-Owner", "ann")
}

func TestMetadata(t *testing.T) {
	w := open(t, tus.Options{})
	var many, exact []string
	for i := range 65 {
		many = append(many, "k"+strconv.Itoa(i))
	}
	exact = many[:64]
	for _, bad := range []string{
		",", "a,", " ", "a  YQ==", "a YQ== x", "a YQ",
		"a Y!==", "a YQ==,a YQ==", "ü YQ==", "a\x01 YQ==", "a /w==", "a AA==", "a YR==", strings.Repeat("k", 129) +
			" YQ==",
		"a " + strings.Repeat("YWFh", 3000), strings.Join(many, ","),
	} {
		w.want(http.StatusBadRequest, http.MethodPost, "/files", nil, "Upload-Length", "0", "Upload-Metadata", bad)
	}
	for header, want := range map[string]map[string]string{
		"a": {"a": ""}, "a YQ==,b": {"a": "a", "b": ""},
		"a YQ==, b Yg==": {"a": "a", "b": "b"}, "filename Li4vLi4vZXRjL3Bhc3N3ZA==": {"filename": "../../etc/passwd"},
		strings.Join(exact, ","): nil,
	} {
		at := w.create(0, "Upload-Metadata", header)
		u := w.taken(at, "", nil)
		if want != nil && !cmp.Equal(u.Metadata, want) {
			t.Errorf("%q: got %q", header, u.Metadata)
		}
	}
}

func TestDeferredLength(t *testing.T) {
	w := open(t, tus.Options{MaxSize: 10})
	at := w.want(http.StatusCreated, http.MethodPost, "/files", nil, "Upload-Defer-Length",
		"1").Header().Get("Location")
	if head := w.want(http.StatusOK, http.MethodHead, at, nil).Header(); head.Get("Upload-Defer-Length") != "1" ||
		head.Get("Upload-Length") != "" {
		t.Errorf("got %v", head)
	}
	if n, size, err := w.Used(""); n != 1 || size != 10 || err != nil {
		t.Errorf("it uses %d, %d", n, size)
	}
	w.patch(http.StatusNoContent, at, 0, strings.NewReader("abc"))
	w.patch(http.StatusRequestEntityTooLarge, at, 3, strings.NewReader("defghijk"))
	w.patch(http.StatusRequestEntityTooLarge, at, 3, strings.NewReader("d"), "Upload-Length", "11")
	w.patch(http.StatusBadRequest, at, 3, strings.NewReader(""), "Upload-Length", "2")
	if _, err := w.Take(strings.TrimPrefix(at, "/files/"), ""); !errors.Is(err, tus.ErrIncomplete) {
		t.Errorf("got %v", err)
	}
	w.patch(http.StatusNoContent, at, 3, strings.NewReader("d"), "Upload-Length", "5")
	w.patch(http.StatusBadRequest, at, 4, strings.NewReader("e"), "Upload-Length", "6")
	w.reopen()
	if head := w.want(http.StatusOK, http.MethodHead, at, nil).Header(); head.Get("Upload-Defer-Length") != "" ||
		head.Get("Upload-Length") != "5" {
		t.Errorf("got %v", head)
	}
	w.patch(http.StatusNoContent, at, 4, strings.NewReader("e"))
	w.taken(at, "", []byte("abcde"))
}

func TestCreationWithUpload(t *testing.T) {
	w := open(t, tus.Options{})
	const media = "application/offset+octet-stream"
	answer := w.want(http.StatusCreated, http.MethodPost, "/files", strings.NewReader("abc"), "Upload-Length",
		"5", "Content-Type", media)
	if got := answer.Header().Get("Upload-Offset"); got != "3" {
		t.Errorf("Upload-Offset is %q", got)
	}
	at := answer.Header().Get("Location")
	w.patch(http.StatusNoContent, at, 3, strings.NewReader("de"))
	w.taken(at, "", []byte("abcde"))
	n, _, _ := w.Used("")
	for _, bad := range [][]string{{"Upload-Length", "2"},
		{"Upload-Length", "3", "Upload-Checksum", checksum("sha1", []byte("abd"))}} {
		answer := w.ask(http.MethodPost, "/files", strings.NewReader("abc"), append(bad, "Content-Type", media)...)
		if answer.Code != http.StatusRequestEntityTooLarge && answer.Code != 460 ||
			answer.Header().Get("Location") != "" {
			t.Errorf("%q: got %d %v", bad, answer.Code, answer.Header())
		}
	}
	if now, _, _ := w.Used(""); now != n {
		t.Errorf("refused creations left %d uploads", now-n)
	}
}

func TestTermination(t *testing.T) {
	w := open(t, tus.Options{})
	at := w.create(3)
	w.want(http.StatusNoContent, http.MethodDelete, at, nil)
	w.want(http.StatusNotFound, http.MethodDelete, at, nil)
	w.want(http.StatusNotFound, http.MethodHead, at, nil)
	w.reopen()
	w.want(http.StatusNotFound, http.MethodHead, at, nil)
}

// TestMethodOverride is for clients behind proxies that know neither PATCH nor DELETE.
func TestMethodOverride(t *testing.T) {
	w := open(t, tus.Options{})
	at := w.create(3)
	w.want(http.StatusNoContent, http.MethodPost, at,
		strings.NewReader("abc"), "X-HTTP-Method-Override", "PATCH", "Upload-Offset", "0", "Content-Type",
		"application/offset+octet-stream")
	w.want(http.StatusMethodNotAllowed, http.MethodGet, at, nil, "X-HTTP-Method-Override", "DELETE")
	w.stands(at, 3)
	w.want(http.StatusNoContent, http.MethodPost, at, nil, "X-HTTP-Method-Override", "DELETE")
	w.want(http.StatusNotFound, http.MethodHead, at, nil)
}
