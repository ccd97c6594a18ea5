package checkm

import "strings"

// parse parses a line into a row.
func (r *Reader) parse(line string) (Row, error) {
	columns := r.profile.columns
	n := split(line, r.fields[:len(columns)+1])
	for i := n; i < len(columns); i++ { // fields that the line leaves out
		r.fields[i] = field{at: len(line)}
	}
	row := Row{Line: r.lines.number, Size: -1}
	var algorithm, url, name field
	for i, c := range columns {
		f := r.fields[i]
		switch c {
		case FileURL:
			url, row.URL = f, f.text
		case HashAlgorithm:
			algorithm = f
		case HashValue:
			row.Digest.Value = decode(f.text)
		case FileName:
			name, row.FileName = f, decode(f.text)
		default:
			if err := r.plain(&row, line, c, f); err != nil {
				return Row{}, err
			}
		}
	}
	if err := r.digest(&row, line, algorithm); err != nil {
		return Row{}, err
	}
	if err := r.location(&row, line, url, name); err != nil {
		return Row{}, err
	}
	if r.strict != nil {
		if err := r.strictRow(&row, line, n); err != nil {
			return Row{}, err
		}
	}
	return row, nil
}

// plain parses a field that is independent of other fields.
func (r *Reader) plain(row *Row, line string, c Column, f field) error {
	value := decode(f.text)
	switch c {
	case FileSize:
		size, ok := parseSize(value)
		if !ok {
			return r.fault(line, f.at, "a file size in bytes", quote(value))
		}
		if strings.HasPrefix(value, "-") && r.strict == nil && len(r.warnings) < warningLimit {
			r.warn(r.fault(line, f.at, "a file size in bytes (a negative one counts as not known)", quote(value)))
		}
		row.Size = size
	case FileLastModified:
		if value == "" {
			return nil
		}
		t, ok := parseDate(value)
		if !ok && len(r.warnings) < warningLimit {
			r.warn(r.fault(line, f.at, "a date such as 2020-01-02T11:04:05+00:00", quote(value)))
		}
		row.Modified = t
	case MIMEType:
		row.MIMEType = value
	case PrimaryIdentifier:
		row.PrimaryID = value
	case LocalIdentifier:
		row.LocalID = value
	case Creator:
		row.Creator = value
	case Title:
		row.Title = value
	case Date:
		row.Date = value
	}
	return nil
}

// digest completes the digest. A row with only one of the two fields has no digest.
func (r *Reader) digest(row *Row, line string, algorithm field) error {
	name := decode(algorithm.text)
	if name == "" || row.Digest.Value == "" {
		row.Digest = Digest{}
		return nil
	}
	a, err := ParseAlgorithm(name)
	if err != nil {
		return r.fault(line, algorithm.at, "a digest algorithm ("+algorithmList+")", quote(name))
	}
	row.Digest.Algorithm = a
	return nil
}

// location checks the URL and the name. If the name is omitted, it derives the name from the URL.
func (r *Reader) location(row *Row, line string, url, name field) error {
	path := ""
	if row.URL != "" {
		var ok bool
		if _, path, ok = urlParts(row.URL); !ok {
			return r.fault(line, url.at, "an http, https, ftp or file URL", quoteURL(row.URL))
		}
	}
	if row.FileName != "" {
		if problem := nameProblem(row.FileName); problem != "" {
			return r.fault(line, name.at, problem, quote(row.FileName))
		}
		return nil
	}
	row.FileName = strings.TrimPrefix(path, "/")
	switch problem := nameProblem(row.FileName); {
	case row.URL == "":
		expected := "a file name"
		if r.profile.Has(FileURL) {
			expected = "a URL or a file name"
		}
		return r.fault(line, name.at, expected, "nothing")
	case problem != "":
		return r.fault(line, url.at, problem+", as the path of the URL where no name is given", quoteURL(row.URL))
	}
	return nil
}
