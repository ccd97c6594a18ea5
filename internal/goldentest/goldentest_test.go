package goldentest

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDescribed(t *testing.T) {
	names := undescribed(t, []byte(`{"properties": {
		"good": {"description": "It is.", "properties": {"bad": {}}},
		"short": {"description": "no sentence"},
		"list": {"description": "Some.", "items": {"properties": {"one": {}}}},
		"map": {"description": "Others.", "additionalProperties": {"properties": {"two": {}}}}}}`))
	slices.Sort(names)
	if diff := cmp.Diff([]string{".good.bad", ".list.*.one", ".map.*.two", ".short"}, names); diff != "" {
		t.Error(diff)
	}
}
