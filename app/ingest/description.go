package ingest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/format/erc"
	"github.com/stagepost/stagepost/job"
)

// mostValues bounds the values of Dublin Core in a submission.
const mostValues = 200

// Elements returns the elements of Dublin Core that a submission may have.
func Elements() []string { return erc.Elements15 }

// checkDescription refuses what cannot describe an object, and brings the rest into normal form.
func checkDescription(s *Submission) error {
	refuse := func(format string, args ...any) error {
		return job.Errorf(job.Invalid, "submit", "", format, args...)
	}
	n := 0
	s.DublinCore = maps.Clone(s.DublinCore)
	for element, values := range s.DublinCore {
		if !slices.Contains(erc.Elements15, element) {
			return refuse("dublin_core: %q is none of %s", element, strings.Join(erc.Elements15, ", "))
		}
		values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return strings.TrimSpace(v) == "" })
		for _, value := range values {
			if err := record.CheckText(value); err != nil {
				return refuse("dublin_core: %s: %w", element, err)
			}
			if strings.ContainsAny(value, "\ufffe\uffff") {
				return refuse("dublin_core: %s: a character that XML cannot carry", element)
			}
		}
		if n += len(values); n > mostValues {
			return refuse("dublin_core: more than %d values", mostValues)
		}
		s.DublinCore[element] = values
		if len(values) == 0 {
			delete(s.DublinCore, element)
		}
	}
	if len(s.DublinCore) == 0 {
		s.DublinCore = nil
	}
	if s.ResourceType != "" {
		typ, err := resourceType(s.ResourceType)
		if err != nil {
			return refuse("%w", err)
		}
		s.ResourceType = typ
	}
	if s.Embargo != "" {
		end, ok := embargoEnd(strings.TrimSpace(s.Embargo))
		if !ok {
			return refuse("embargo %.80q is neither a date such as 2030-01-31 nor none", s.Embargo)
		}
		s.Embargo = end
	}
	return nil
}

// resourceType gives a general resource type of DataCite as its schema spells it. A specific type may follow behind a
// slash, as EZID has it: Dataset/Survey.
func resourceType(text string) (string, error) {
	general, specific, _ := strings.Cut(text, "/")
	i := slices.IndexFunc(erc.ResourceTypes,
		func(t string) bool { return strings.EqualFold(t, strings.TrimSpace(general)) })
	if i < 0 {
		return "", fmt.Errorf("resource type %.80q is none of %s", text, strings.Join(erc.ResourceTypes, ", "))
	}
	if specific = strings.TrimSpace(specific); specific == "" {
		return erc.ResourceTypes[i], nil
	}
	if err := record.CheckText(specific); err != nil {
		return "", fmt.Errorf("resource type: %w", err)
	}
	return erc.ResourceTypes[i] + "/" + specific, nil
}

// LooseResourceType gives a resource type as a form may have it: one that DataCite 4 does not know becomes a specific
// type of Other.
func LooseResourceType(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	typ, err := resourceType(text)
	if err == nil || text == "" {
		return typ
	}
	if strings.EqualFold(text, "Film") { // of DataCite 2
		return "Audiovisual/Film"
	}
	return "Other/" + strings.ReplaceAll(text, "/", " ")
}

// DescribeERC takes title, creator and date from an ERC record, where the submission has none.
func DescribeERC(text string, s *Submission) {
	var l erc.Loose
	r, err := l.ERC(strings.NewReader(text))
	if err != nil {
		return // a string is read to its end
	}
	s.Title = cmp.Or(s.Title, record.Known(r.What))
	s.Creator = cmp.Or(s.Creator, record.Known(r.Who))
	s.Date = cmp.Or(s.Date, record.Known(r.When))
}
