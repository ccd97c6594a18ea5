package packaging

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/stagepost/stagepost/format/bagit"
)

// bag writes the tag files of the package. It returns all of them as entries, with README.txt.
func (c *content) bag(d disk, dir string) ([]entry, error) {
	readme, err := generate(d, dir, readmeFile, func(w io.Writer) error { return c.writeReadme(w, true) })
	if err != nil {
		return nil, err
	}
	entries := []entry{readme}
	create := func(name string) (io.WriteCloser, error) {
		f, err := d.Create(path.Join(dir, name))
		if err != nil {
			return nil, err
		}
		return buffered{buffer(f), f}, nil
	}
	w, err := bagit.NewWriter(create, bagit.SHA256, bagit.SHA512)
	if err != nil {
		return nil, err
	}
	defer w.Abandon()
	for _, e := range c.entries {
		if err := w.Add(e.name, e.size, e.sha256, e.sha512); err != nil {
			return nil, err
		}
	}
	if err := w.AddTag(readme.name, readme.size, readme.sha256, readme.sha512); err != nil {
		return nil, err
	}
	tags, err := w.Close(c.info()...)
	if err != nil {
		return nil, err
	}
	for _, t := range tags {
		if t.Name != readme.name {
			entries = append(entries, entry{name: t.Name, size: t.Size, sha256: t.Digests[0], sha512: t.Digests[1],
				made: path.Join(dir, t.Name)})
		}
	}
	return entries, nil
}

// buffered is a tag file with a buffer.
type buffered struct {
	*bufio.Writer
	file file
}

// Close writes what is in the buffer.
func (b buffered) Close() error {
	err := b.Flush()
	if err == nil {
		err = b.file.Sync()
	}
	return errors.Join(err, b.file.Close())
}

// info are the elements of bag-info.txt (RFC 8493 section 2.2.2) but Payload-Oxum, and those of our own.
func (c *content) info() []bagit.Field {
	f := &c.facts
	fields := []bagit.Field{
		{Label: "Source-Organization", Value: f.Job.Organization},
		{Label: "External-Identifier", Value: f.Job.Identifier},
		{Label: "External-Description", Value: description(f)},
		{Label: "Bagging-Date", Value: f.Job.Packaged.Format(time.DateOnly)},
		{Label: "Bag-Software-Agent", Value: strings.TrimSpace(f.Software.Name + " " + f.Software.Version + " " +
			f.Software.URL)},
		{Label: "Bag-Group-Identifier", Value: f.Course.ID},
		{Label: "BagIt-Profile-Identifier", Value: f.Job.BagProfile},
	}
	for _, a := range f.Activities {
		fields = append(fields, bagit.Field{Label: "Internal-Sender-Identifier",
			Value: strings.TrimSpace(f.Source.URL + " " + a.ID)})
	}
	for _, a := range f.Activities {
		fields = append(fields, bagit.Field{Label: "Fingerprint-SHA256", Value: a.Fingerprint})
	}
	if !f.Job.RetainUntil.IsZero() {
		fields = append(fields, bagit.Field{Label: "Retention-Until", Value: f.Job.RetainUntil.Format(time.DateOnly)})
	}
	return fields
}

// maxTitles bounds the activities that a description names: a line of a tag file has a limit for most readers.
const maxTitles = 20

// description names the course and its activities.
func description(f *Facts) string {
	text := courseTitle(f)
	for i, a := range f.Activities {
		switch {
		case i == 0:
			text += ": " + a.Name
		case i < maxTitles:
			text += "; " + a.Name
		}
	}
	if more := len(f.Activities) - maxTitles; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}
