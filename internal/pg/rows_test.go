package pg

import (
	"bytes"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
)

type rows []row

type row struct {
	n     int64
	text  string
	bytes []byte
	id    pgtype.UUID
}

func (r rows) Len() int { return len(r) }

func (r rows) AppendRow(b []byte, i int) ([]byte, int) {
	one := &r[i]
	return AppendUUID(AppendBytes(AppendText(AppendInt(b, one.n), one.text), one.bytes), one.id), 4
}

// TestRows: arrays of rows have the bytes that pgx encodes.
func TestRows(t *testing.T) {
	const composite, array = 70001, 70002
	m := pgtype.NewMap()
	field := func(name string, oid uint32) pgtype.CompositeCodecField {
		of, _ := m.TypeForOID(oid)
		return pgtype.CompositeCodecField{Name: name, Type: of}
	}
	one := &pgtype.Type{Name: "one", OID: composite, Codec: &pgtype.CompositeCodec{Fields: []pgtype.CompositeCodecField{
		field("n", pgtype.Int8OID), field("text", pgtype.TextOID), field("bytes", pgtype.ByteaOID),
		field("id", pgtype.UUIDOID)}}}
	m.RegisterType(one)
	m.RegisterType(&pgtype.Type{Name: "one[]", OID: array, Codec: &pgtype.ArrayCodec{ElementType: one}})
	id := pgtype.UUID{Bytes: [16]byte{1, 15: 9}, Valid: true}
	for _, list := range []rows{
		{{1, "a", []byte{0, 255}, id}}, {{-1, "", []byte{}, id}, {1 << 62, "ü", nil, pgtype.UUID{}}},
	} {
		var theirs []pgtype.CompositeFields
		for _, r := range list {
			theirs = append(theirs, pgtype.CompositeFields{r.n, r.text, r.bytes, r.id})
		}
		want, err := m.Encode(array, pgtype.BinaryFormatCode, theirs, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := rowsCodec(composite).Encode(list, []byte("before"))
		if err != nil || !bytes.Equal(got, append([]byte("before"), want...)) {
			t.Errorf("got  %x\nwant %x, %v", got, want, err)
		}
	}
}
