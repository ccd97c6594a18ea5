package ingest

import (
	"fmt"
	"strings"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/format/checkm"
)

// checkSource returns why no file could be fetched from a URL and match a digest, or nil. Either may be empty.
func checkSource(url string, d record.Digest) error {
	if strings.ContainsAny(url, "\\ \t\r\n") { // as package fetch has it
		return fmt.Errorf("the URL has white space or a backslash: write %%20 for a blank")
	}
	if err := fetch.CheckFTP(url); err != nil {
		return err
	}
	if d.Type == "" {
		return nil
	}
	a, err := checkm.ParseAlgorithm(d.Type)
	if err == nil {
		_, err = checkm.NewHash(a)
	}
	if err != nil {
		return fmt.Errorf("digest type %q: %w", d.Type, err)
	}
	value := strings.ToLower(strings.TrimSpace(d.Value))
	if len(value) != a.HexLen() || strings.Trim(value, "0123456789abcdef") != "" {
		return fmt.Errorf("digest %.140q: %s has %d hexadecimal digits", d.Value, a, a.HexLen())
	}
	return nil
}
