package pg

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Rows are a parameter that is an array of a composite type. PostgreSQL takes a row from such an array, unnested, in
// less time than from one array for each column.
type Rows interface {
	Len() int
	// AppendRow appends the fields of a row, by [AppendInt], [AppendText], [AppendBytes] and [AppendUUID], and returns
	// how many they are.
	AppendRow(to []byte, i int) (b []byte, fields int)
}

// AppendInt appends a field of the type bigint.
func AppendInt(b []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(field(b, pgtype.Int8OID, 8), uint64(v))
}

// AppendText appends a field of the type text.
func AppendText(b []byte, v string) []byte { return append(field(b, pgtype.TextOID, len(v)), v...) }

// AppendBytes appends a field of the type bytea; nil is NULL.
func AppendBytes(b []byte, v []byte) []byte {
	if v == nil {
		return field(b, pgtype.ByteaOID, -1)
	}
	return append(field(b, pgtype.ByteaOID, len(v)), v...)
}

// AppendUUID appends a field of the type uuid.
func AppendUUID(b []byte, v pgtype.UUID) []byte {
	if !v.Valid {
		return field(b, pgtype.UUIDOID, -1)
	}
	return append(field(b, pgtype.UUIDOID, len(v.Bytes)), v.Bytes[:]...)
}

// field appends the head of a field: its type and its length, -1 for NULL.
func field(b []byte, of uint32, length int) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, of), uint32(int32(length)))
}

// RegisterRows makes a connection encode parameters of the type Rows as arrays of the composite types with these names,
// which the schema of the connection has.
func RegisterRows(ctx context.Context, conn *pgx.Conn, names []string) error {
	rows, err := conn.Query(ctx, `SELECT typname::text, oid, typarray FROM pg_type
 WHERE typname = ANY ($1) AND typtype = 'c' AND pg_type_is_visible(oid)`, names)
	if err != nil {
		return err
	}
	var name string
	var of, array uint32
	found, err := 0, error(nil)
	_, err = pgx.ForEachRow(rows, []any{&name, &of, &array}, func() error {
		found++
		conn.TypeMap().RegisterType(&pgtype.Type{Name: name + "[]", OID: array, Codec: rowsCodec(of)})
		return nil
	})
	if err == nil && found != len(names) {
		err = fmt.Errorf("the database has %d of the types %q", found, names)
	}
	return err
}

// rowsCodec encodes arrays of a composite type. They are never read.
type rowsCodec uint32

// FormatSupported is part of pgtype.Codec.
func (rowsCodec) FormatSupported(format int16) bool { return format == pgtype.BinaryFormatCode }

// PreferredFormat is part of pgtype.Codec.
func (rowsCodec) PreferredFormat() int16 { return pgtype.BinaryFormatCode }

// PlanEncode is part of pgtype.Codec.
func (c rowsCodec) PlanEncode(_ *pgtype.Map, _ uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(Rows); ok && format == pgtype.BinaryFormatCode {
		return c
	}
	return nil
}

// PlanScan is part of pgtype.Codec.
func (rowsCodec) PlanScan(*pgtype.Map, uint32, int16, any) pgtype.ScanPlan { return nil }

// DecodeDatabaseSQLValue is part of pgtype.Codec.
func (rowsCodec) DecodeDatabaseSQLValue(*pgtype.Map, uint32, int16, []byte) (driver.Value, error) {
	return nil, errNotRead
}

// DecodeValue is part of pgtype.Codec.
func (rowsCodec) DecodeValue(*pgtype.Map, uint32, int16, []byte) (any, error) { return nil, errNotRead }

var errNotRead = fmt.Errorf("arrays of composite types are not read")

// longer is how much longer than the first row the others may be without more memory.
const longer = 32

// Encode is part of pgtype.EncodePlan. The format is that of array_recv, as of plan.Encode, and of record_recv: the
// number of fields, and each field with its type and its length.
func (c rowsCodec) Encode(value any, buf []byte) ([]byte, error) {
	list := value.(Rows)
	for _, v := range []uint32{1, 0, uint32(c), uint32(list.Len()), 1} {
		buf = binary.BigEndian.AppendUint32(buf, v)
	}
	for i := range list.Len() {
		at := len(buf)
		row, n := list.AppendRow(append(buf, 0, 0, 0, 0, 0, 0, 0, 0), i)
		binary.BigEndian.PutUint32(row[at:], uint32(len(row)-at-4))
		binary.BigEndian.PutUint32(row[at+4:], uint32(n))
		if buf = row; i == 0 { // the others are hardly longer
			buf = slices.Grow(buf, (list.Len()-1)*(len(buf)-at+longer))
		}
	}
	return buf, nil
}
