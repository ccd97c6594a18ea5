package checkm_test

import (
	"encoding/hex"
	"errors"
	"testing"

	"github.com/stagepost/stagepost/format/checkm"
)

func TestParseAlgorithm(t *testing.T) {
	for s, want := range map[string]checkm.Algorithm{
		"md5": checkm.MD5, "MD-5": checkm.MD5, "Sha-256": checkm.SHA256, "sha1": checkm.SHA1, "SHA384": checkm.SHA384,
		"sha-512": checkm.SHA512,
		"crc-32":  checkm.CRC32, "Adler32": checkm.Adler32, "md2": checkm.MD2,
		"sha_256": "", "sha3-256": "", "sha256-": "", "-sha256": "", "sha--256": "", "sha25-6": "", "": "", "sha": "",
		"md5 ": "", "sha224": "",
	} {
		got, err := checkm.ParseAlgorithm(s)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v; want %q", s, got, err, want)
		}
	}
}

// The digests are those of RFC 1321 and FIPS 180 for "abc", and of the definitions of CRC-32 and Adler-32.
func TestNewHash(t *testing.T) {
	for a, want := range map[checkm.Algorithm]string{
		checkm.Adler32: "024d0127", checkm.CRC32: "352441c2", checkm.MD5: "900150983cd24fb0d6963f7d28e17f72",
		checkm.SHA1:   "a9993e364706816aba3e25717850c26c9cd0d89d",
		"SHA-256":     "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
		checkm.SHA384: "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
		checkm.SHA512: "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
	} {
		h, err := checkm.NewHash(a)
		if err != nil {
			t.Fatal(err)
		}
		h.Write([]byte("abc"))
		sum := h.Sum(nil)
		if got := hex.EncodeToString(sum); got != want {
			t.Errorf("%s: got %s, want %s", a, got, want)
		}
		if p, _ := checkm.ParseAlgorithm(string(a)); p.HexLen() != len(want) {
			t.Errorf("%s: %d hexadecimal digits", a, p.HexLen())
		}
		if !(checkm.Digest{Algorithm: a, Value: want[:4] + upper(want[4:])}).Matches(sum) {
			t.Errorf("%s does not match itself in upper case", a)
		}
		if (checkm.Digest{Algorithm: a, Value: want[1:]}).Matches(sum) || (checkm.Digest{}).Matches(nil) {
			t.Errorf("%s matches another digest", a)
		}
	}
	if n := checkm.Algorithm("sha3-256").HexLen(); n != 0 {
		t.Errorf("sha3-256: %d hexadecimal digits", n)
	}
	if _, err := checkm.NewHash(checkm.MD2); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("md2: %v", err)
	}
	if _, err := checkm.NewHash("sha3-256"); err == nil || errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("sha3-256: %v", err)
	}
}

func upper(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}
