package tus

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
)

// FuzzMetadata holds what is understood against the bounds, and against itself when it is written anew.
func FuzzMetadata(f *testing.F) {
	for _, s := range []string{"", "a", "a YQ==", "filename cnVuLnNo,b", "a YQ==, b Yg==", ",,", "a b c", "ü YQ=="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		all, err := parseMetadata(header)
		if err != nil {
			return
		}
		if len(all) > maxPairs {
			t.Errorf("%d pairs", len(all))
		}
		var pairs []string
		for k, v := range all {
			if checkKey(k) != nil || strings.ContainsRune(v, 0) {
				t.Errorf("%q=%q", k, v)
			}
			pairs = append(pairs, k+" "+base64.StdEncoding.EncodeToString([]byte(v)))
		}
		slices.Sort(pairs)
		again, err := parseMetadata(strings.Join(pairs, ","))
		if err != nil && len(strings.Join(pairs, ",")) <= maxMetadata {
			t.Error(err)
		}
		for k, v := range again {
			if all[k] != v {
				t.Errorf("%q became %q", all[k], v)
			}
		}
	})
}
