package catalog

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"
)

// Person is a person whose data an archive contains.
type Person struct {
	Source   string
	ID       string // in the source
	Username string
	Number   string // such as the matriculation number
	Name     string
	Email    string
}

// Content is a part of an archive that contains data of a person.
type Content struct {
	Job      string
	Activity string
	Source   string // set by the catalog
	Person   string // id in the source
	Item     string // key of the item, such as an attempt
	Kind     string // such as attempt, submission, grade, participant
	Path     string // of the artifact or of a file in the package; empty: not one file alone
	Title    string
}

// PutPeople enters people of the source of an archive and which content has their data, all or none. Later facts about
// a person replace earlier ones. It changes nothing after the archive has ended, so that a repetition does not enter a
// person again who was erased.
func (c *Catalog) PutPeople(ctx context.Context, job string, people []Person, contents []Content) error {
	return c.enter(ctx, "put people", func(tx *sql.Tx) error {
		a, err := scanArchive(tx.QueryRowContext(ctx, "SELECT "+archiveColumns+" FROM archives WHERE job = ?", job))
		if err != nil || a.Outcome != Making {
			return err
		}
		for _, p := range people {
			if _, err := tx.ExecContext(ctx, `INSERT INTO people VALUES (?, ?, ?, ?, ?, ?, ?)
				ON CONFLICT (source, person) DO UPDATE SET username = excluded.username, number = excluded.number,
				name = excluded.name, folded = excluded.folded, email = excluded.email`,
				a.Source, p.ID, p.Username, p.Number, p.Name, fold(p.Name), p.Email); err != nil {
				return err
			}
		}
		for _, x := range contents {
			if _, err := tx.ExecContext(ctx, `INSERT INTO contents VALUES (?, ?, ?, ?, ?, ?, ?, ?)
				ON CONFLICT DO NOTHING`, job, x.Activity, a.Source, x.Person, x.Item, x.Kind, x.Path, x.Title); err != nil {
				return err
			}
		}
		return nil
	})
}

// fold makes names comparable: without case, in one normal form.
func fold(s string) string { return strings.ToLower(norm.NFKC.String(strings.TrimSpace(s))) }

// People finds persons by their id in the source, username, number, or mail address, without regard to case, or by a
// part of their name of at least three characters.
func (c *Catalog) People(ctx context.Context, text string, limit int) ([]Person, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, errors.New("catalog: a search for a person needs a text")
	}
	part := fold(text)
	if len([]rune(part)) < 3 {
		part = ""
	}
	return each(ctx, c.read, scanPerson, `SELECT source, person, username, number, name, email FROM people WHERE username = ?1 OR number = ?1
			OR email = ?1 OR person = ?1 OR ?2 <> '' AND instr(folded, ?2) > 0
		ORDER BY source, person LIMIT ?3`, text, part, page(limit))
}

func scanPerson(r row) (p Person, err error) {
	err = r.Scan(&p.Source, &p.ID, &p.Username, &p.Number, &p.Name, &p.Email)
	return p, err
}

// Person gives a person by the id in the source.
func (c *Catalog) Person(ctx context.Context, source, person string) (Person, error) {
	return one("person "+person+" of "+source, c.read.QueryRowContext(ctx, `SELECT source, person, username, number,
		name, email FROM people WHERE source = ? AND person = ?`, source, person), scanPerson)
}

// ContentsOf lists what contains data of a person, in archives that are not deleted, from the one after a job on.
func (c *Catalog) ContentsOf(ctx context.Context, source, person string) ([]Content, error) {
	return each(ctx, c.read, func(r row) (x Content, err error) {
		err = r.Scan(&x.Job, &x.Activity, &x.Source, &x.Person, &x.Item, &x.Kind, &x.Path, &x.Title)
		return x, err
	}, `SELECT * FROM contents WHERE source = ? AND person = ?
			AND job NOT IN (SELECT job FROM archives WHERE outcome = ?) ORDER BY job, activity, item, path`,
		source, person, Deleted)
}

// Erasure is the record that data of a person were removed from the catalog. It does not name the person.
type Erasure struct {
	ID     string // of the request
	By     string
	Reason string
	At     time.Time

	Contents int64
	Archives []string // jobs whose packages contain data of the person: they are deleted on their own
}

// Erase removes a person from the catalog and records it: made has the id, the person who asked, the reason and the
// time, and the answer also what contains data of the person. The packages themselves are not changed: an archive is
// deleted as a whole (see RequestDeletion). A repetition gives the first record.
func (c *Catalog) Erase(ctx context.Context, source, person string, made Erasure) (Erasure, error) {
	var e Erasure
	err := c.enter(ctx, "erase person", func(tx *sql.Tx) (err error) {
		if e, err = scanErasure(tx.QueryRowContext(ctx, "SELECT * FROM erasures WHERE id = ?", made.ID)); err == nil {
			return nil
		} else if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		var jobs string
		if err := tx.QueryRowContext(ctx, `SELECT count(*), coalesce(json_group_array(DISTINCT job), '[]') FROM contents
			WHERE source = ? AND person = ? AND job NOT IN (SELECT job FROM archives WHERE outcome = ?)`,
			source, person, Deleted).Scan(&e.Contents, &jobs); err != nil {
			return err
		}
		for _, q := range []string{"contents", "people"} {
			_, err := tx.ExecContext(ctx, "DELETE FROM "+q+" WHERE source = ? AND person = ?", source, person)
			if err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO erasures VALUES (?, ?, ?, ?, ?, ?)",
			made.ID, made.By, made.Reason, e.Contents, jobs, sorted(made.At))
		if err != nil {
			return err
		}
		e, err = scanErasure(tx.QueryRowContext(ctx, "SELECT * FROM erasures WHERE id = ?", made.ID))
		return err
	})
	return e, err
}

func scanErasure(r row) (e Erasure, err error) {
	var jobs string
	if err = r.Scan(&e.ID, &e.By, &e.Reason, &e.Contents, &jobs, instant{&e.At}); err != nil {
		return e, err
	}
	err = json.Unmarshal([]byte(jobs), &e.Archives)
	slices.Sort(e.Archives)
	return e, err
}
